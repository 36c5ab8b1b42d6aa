#include "tessera/nn/linear.h"

#include <cmath>
#include <utility>

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
  quant::RowCodes int7, int8_columns;
};

quant::RowCodes without_tensors(const quant::RowCodes& codes) { return {codes.rows, codes.cols, {}, {}, codes.limit}; }

void save(AutogradContext* ctx, LinearState& state, SavedActivations saved) {
  ctx->save_for_backward({saved.dense, saved.int4.packed, saved.int4.packed.defined() ? saved.int4.scales : Tensor(),
                          saved.int4.trust_mask, saved.int7.codes, saved.int7.scales, saved.int8_columns.codes,
                          saved.int8_columns.scales});
  state.int4 = {saved.int4.rows, saved.int4.cols, saved.int4.block, {}, {}, {}};
  state.int7 = without_tensors(saved.int7);
  state.int8_columns = without_tensors(saved.int8_columns);
}

SavedActivations restore(AutogradContext* ctx, const LinearState& state) {
  const variable_list tensors = ctx->get_saved_variables();
  SavedActivations saved{tensors[0], state.int4, state.int7, state.int8_columns};
  saved.int4.packed = tensors[1];
  saved.int4.scales = tensors[2];
  saved.int4.trust_mask = tensors[3];
  saved.int7.codes = tensors[4];
  saved.int7.scales = tensors[5];
  saved.int8_columns.codes = tensors[6];
  saved.int8_columns.scales = tensors[7];
  return saved;
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& /*weight*/,
                        const std::optional<Tensor>& bias, const c10::intrusive_ptr<LinearState>& state) {
    SavedActivations saved;
    const Tensor rows = x.reshape({-1, state->call.in_features});
    Tensor y = linear_forward(state->call, rows, bias.value_or(Tensor()), state->want_dx, state->want_dw, &saved);
    state->weight_version = state->call.weight->version();
    save(ctx, *state, std::move(saved));
    ctx->saved_data["state"] = c10::IValue::make_capsule(state);
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = state->call.out_features;
    return y.view(shape);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::Linear has no second derivative");
    const auto state = c10::static_intrusive_pointer_cast<LinearState>(ctx->saved_data["state"].toCapsule());
    const LinearCall& call = state->call;
    TORCH_CHECK_VALUE(call.weight->version() == state->weight_version,
                      "a weight of tessera::nn::Linear changed between forward and backward");
    const Tensor dy = grads[0].reshape({-1, call.out_features}).contiguous();
    Tensor dw;
    const LinearGradients gradients = linear_backward(call, restore(ctx, *state), dy,
                                                      {.dx = state->want_dx,
                                                       .bias = state->want_bias,
                                                       .dx_dtype = state->x_dtype,
                                                       .dw = state->want_dw ? &dw : nullptr});
    return {state->want_dx ? gradients.dx.view(state->x_shape) : Tensor(),
            state->want_dw ? finish_weight_gradient(call, dw) : Tensor(), gradients.bias, Tensor()};
  }
};

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, LinearCall call) {
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) == call.in_features, "Linear expects inputs of ", call.in_features,
                    " features, got shape ", x.sizes());
  TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16, "Linear input is ",
                   x.scalar_type(), ", expected float32 or bfloat16");
  const bool grad = at::GradMode::is_enabled();
  if (!grad || !(x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()))) {
    const at::NoGradGuard no_grad;
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape.back() = call.out_features;
    return linear_forward(call, x.reshape({-1, call.in_features}), bias, false, false, nullptr).view(shape);
  }
  auto state = c10::make_intrusive<LinearState>();
  state->call = std::move(call);
  state->want_dx = x.requires_grad();
  state->want_dw = weight.requires_grad();
  state->want_bias = bias.defined() && bias.requires_grad();
  state->x_dtype = x.scalar_type();
  state->x_shape = x.sizes().vec();
  return LinearFunction::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, state);
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

Tensor LinearImpl::forward_at(const Tensor& input, const NoisePosition& noise, std::int64_t row_offset) {
  handle_->refresh(weight);
  return linear(input, weight, bias,
                {handle_, options.in_features(), options.out_features(), options.recipe(),
                 philox_key(noise.seed, options.name(), "dY"), noise, row_offset});
}

}  // namespace tessera::nn
