#include "tessera/nn/linear.h"

#include <cmath>
#include <utility>

#include "tessera/nn/gelu.h"
#include "tessera/nn/layer_norm.h"
#include "tessera/nn/timed.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What one application carries from forward to backward besides the saved tensors.
struct LinearState : torch::CustomClassHolder {
  LinearCall call;
  std::uint64_t weight_version = 0;
  bool want_dx = false, want_dw = false, want_bias = false;
  at::ScalarType x_dtype = at::kFloat;
  std::vector<std::int64_t> x_shape;
  // Shapes of the saved codes; their tensors go through save_for_backward.
  quant::Int4Codes int4;
  quant::RowCodes rows, int8_columns;
};

quant::RowCodes without_tensors(const quant::RowCodes& codes) { return {codes.rows, codes.cols, {}, {}, codes.limit}; }

void save(AutogradContext* ctx, LinearState& state, SavedActivations saved) {
  ctx->save_for_backward({saved.dense, saved.int4.packed, saved.int4.packed.defined() ? saved.int4.scales : Tensor(),
                          saved.int4.trust_mask, saved.rows.codes, saved.rows.scales, saved.int8_columns.codes,
                          saved.int8_columns.scales, saved.map_input, state.call.input.norm_weight, saved.norm_mean,
                          saved.norm_rstd});
  state.int4 = {saved.int4.rows, saved.int4.cols, saved.int4.block, {}, {}, {}};
  state.rows = without_tensors(saved.rows);
  state.int8_columns = without_tensors(saved.int8_columns);
}

SavedActivations restore(AutogradContext* ctx, const LinearState& state) {
  const variable_list tensors = ctx->get_saved_variables();
  SavedActivations saved;
  saved.dense = tensors[0];
  saved.int4 = state.int4;
  saved.rows = state.rows;
  saved.int8_columns = state.int8_columns;
  saved.int4.packed = tensors[1];
  saved.int4.scales = tensors[2];
  saved.int4.trust_mask = tensors[3];
  saved.rows.codes = tensors[4];
  saved.rows.scales = tensors[5];
  saved.int8_columns.codes = tensors[6];
  saved.int8_columns.scales = tensors[7];
  saved.map_input = tensors[8];
  saved.norm_mean = tensors[10];
  saved.norm_rstd = tensors[11];
  return saved;
}

std::vector<std::int64_t> output_shape(const Tensor& x, const LinearCall& call) {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = call.out_features;
  return shape;
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  // The LayerNorm parameters are operands only so that autograd knows of them; the products read those of the call.
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& /*weight*/,
                        const std::optional<Tensor>& bias, const std::optional<Tensor>& /*norm_weight*/,
                        const std::optional<Tensor>& /*norm_bias*/, const c10::intrusive_ptr<LinearState>& state) {
    SavedActivations saved;
    const Tensor rows = x.reshape({-1, state->call.in_features});
    Tensor y = linear_forward(state->call, rows, bias.value_or(Tensor()), state->want_dx, state->want_dw, &saved);
    state->weight_version = state->call.weight->version();
    save(ctx, *state, std::move(saved));
    ctx->saved_data["state"] = c10::IValue::make_capsule(state);
    return y.view(output_shape(x, state->call));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::Linear has no second derivative");
    const auto state = c10::static_intrusive_pointer_cast<LinearState>(ctx->saved_data["state"].toCapsule());
    const LinearCall& call = state->call;
    TORCH_CHECK_VALUE(call.weight->version() == state->weight_version,
                      "a weight of tessera::nn::Linear changed between forward and backward");
    const SavedActivations saved = restore(ctx, *state);
    const Tensor dy = grads[0].reshape({-1, call.out_features}).contiguous();
    const bool norm = call.input.map == quant::RowMap::kLayerNorm;
    Tensor dw;
    LinearGradients gradients = linear_backward(call, saved, dy,
                                                {.dx = state->want_dx,
                                                 .bias = state->want_bias,
                                                 .dx_dtype = norm ? call.input.norm_dtype : state->x_dtype,
                                                 .dw = state->want_dw ? &dw : nullptr});
    LayerNormGradients of_norm;
    if (norm && state->want_dx) {
      of_norm = layer_norm_backward(saved.map_input, call.input.norm_weight, saved.norm_mean, saved.norm_rstd,
                                    gradients.dx, call.input.norm_bias.defined());
      gradients.dx = of_norm.x;
    }
    return {state->want_dx ? gradients.dx.view(state->x_shape) : Tensor(),
            state->want_dw ? finish_weight_gradient(call, dw) : Tensor(),
            gradients.bias,
            of_norm.weight,
            of_norm.bias,
            Tensor()};
  }
};

bool wants_gradient(const Tensor& x) { return x.defined() && x.requires_grad(); }

std::optional<Tensor> if_defined(const Tensor& x) { return x.defined() ? std::optional(x) : std::nullopt; }

// The map as an operation of its own.
Tensor apply_map(const InputMap& map, const Tensor& x) {
  switch (map.map) {
    case quant::RowMap::kLayerNorm:
      return layer_norm(x, map.norm_weight, map.norm_bias, map.norm_dtype);
    case quant::RowMap::kGelu:
      return timed(Part::kGelu, x, [](const Tensor& x) { return nn::gelu(x); });
    case quant::RowMap::kNone:
      break;
  }
  return x;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, LinearCall call) {
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) == call.in_features, "Linear expects inputs of ", call.in_features,
                    " features, got shape ", x.sizes());
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16, "Linear input is ",
                   x.scalar_type(), ", expected float32 or bfloat16");
  if (call.input.map != quant::RowMap::kNone && !call.fuses_input()) {
    const Tensor mapped = apply_map(std::exchange(call.input, {}), x);
    return linear(mapped, weight, bias, std::move(call));
  }
  const bool want_dx =
      wants_gradient(x) || wants_gradient(call.input.norm_weight) || wants_gradient(call.input.norm_bias);
  if (!at::GradMode::is_enabled() || !(want_dx || wants_gradient(weight) || wants_gradient(bias))) {
    const at::NoGradGuard no_grad;
    return linear_forward(call, x.reshape({-1, call.in_features}), bias, false, false, nullptr)
        .view(output_shape(x, call));
  }
  auto state = c10::make_intrusive<LinearState>();
  state->want_dx = want_dx;
  state->want_dw = weight.requires_grad();
  state->want_bias = wants_gradient(bias);
  state->x_dtype = x.scalar_type();
  state->x_shape = x.sizes().vec();
  const auto norm_weight = if_defined(call.input.norm_weight), norm_bias = if_defined(call.input.norm_bias);
  state->call = std::move(call);
  return LinearFunction::apply(x, weight, if_defined(bias), norm_weight, norm_bias, state);
}

LinearImpl::LinearImpl(LinearOptions options_) : options(std::move(options_)) {
  TORCH_CHECK_VALUE(options.in_features() > 0 && options.out_features() > 0, "Linear has ", options.in_features(),
                    " input and ", options.out_features(), " output features, expected at least 1 of each");
  const quant::Recipe& recipe = options.recipe();
  if (recipe.rotates())
    quant::hadamard_block_for(options.in_features(), recipe.hadamard_block);  // throws when there is none
  reset();
}

void LinearImpl::reset() {
  handle_ = std::make_shared<MasterWeight>();
  weight = register_parameter("weight", torch::empty({options.out_features(), options.in_features()}));
  bias = register_parameter("bias", options.bias() ? torch::empty({options.out_features()}) : Tensor(), options.bias());
  reset_parameters();
}

void LinearImpl::reset_parameters() {
  torch::nn::init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (bias.defined()) {
    const double bound = 1 / std::sqrt(static_cast<double>(options.in_features()));
    torch::nn::init::uniform_(bias, -bound, bound);
  }
}

void LinearImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "tessera::nn::Linear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << options.bias() << ", recipe=\""
         << options.recipe().describe() << "\")";
}

Tensor LinearImpl::forward(const Tensor& input) {
  return forward_at(input, {options.seed(), /*step=*/0, /*micro_batch=*/calls_++});
}

Tensor LinearImpl::forward_at(const Tensor& input, const NoisePosition& noise, std::int64_t row_offset,
                              const InputMap& map) {
  handle_->refresh(weight);
  return linear(input, weight, bias,
                {handle_, options.in_features(), options.out_features(), options.recipe(),
                 philox_key(noise.seed, options.name(), "dY"), philox_key(noise.seed, options.name(), "X"), noise,
                 row_offset, map});
}

}  // namespace tessera::nn
