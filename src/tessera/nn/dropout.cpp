#include "tessera/nn/dropout.h"

#include "tessera/kernels/dropout/dropout.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct DropoutState : torch::CustomClassHolder {
  kernels::DropoutParams params;  // pointers unset
};

Tensor apply_mask(kernels::DropoutParams params, const Tensor& x_in) {
  quant::use_torch_threads();
  const Tensor x = x_in.contiguous();
  Tensor y = torch::empty(x.sizes(), x.options().requires_grad(false));
  params.n = x.numel();
  params.x = x.const_data_ptr();
  params.y = y.mutable_data_ptr();
  params.type = quant::float_type(x.scalar_type());
  kernels::dropout(params);
  return y;
}

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const c10::intrusive_ptr<DropoutState>& state) {
    ctx->saved_data["state"] = c10::IValue::make_capsule(state);
    return apply_mask(state->params, x);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::dropout has no second derivative");
    const auto state = c10::static_intrusive_pointer_cast<DropoutState>(ctx->saved_data["state"].toCapsule());
    return {apply_mask(state->params, grads[0]), Tensor()};
  }
};

}  // namespace

Tensor dropout(const Tensor& x, double p, std::string_view name, const NoisePosition& noise) {
  TORCH_CHECK_VALUE(p >= 0 && p < 1, "dropout probability is ", p, ", expected 0 <= p < 1");
  TORCH_CHECK_TYPE(x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kBFloat16, "dropout input is ",
                   x.scalar_type(), ", expected float32 or bfloat16");
  if (p == 0) return x;
  auto state = c10::make_intrusive<DropoutState>();
  state->params.p = static_cast<float>(p);
  state->params.key = philox_key(noise.seed, name, "dropout");
  state->params.step = noise.step;
  state->params.micro_batch = noise.micro_batch;
  return DropoutFunction::apply(x, state);
}

}  // namespace tessera::nn
