#include "tessera/nn/gelu.h"

#include "tessera/kernels/gelu/gelu.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// y, or with dy the gradient of x.
Tensor run_gelu(const Tensor& x, const Tensor& dy) {
  quant::use_torch_threads();
  Tensor out = torch::empty(x.sizes(), x.options().requires_grad(false));
  kernels::GeluParams params;
  params.n = x.numel();
  params.type = quant::float_type(x.scalar_type());
  params.x = x.const_data_ptr();
  params.dy = dy.defined() ? dy.const_data_ptr() : nullptr;
  params.out = out.mutable_data_ptr();
  if (params.n > 0) kernels::gelu(params);
  return out;
}

struct GeluFunction : torch::autograd::Function<GeluFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in) {
    const Tensor x = x_in.contiguous();
    ctx->save_for_backward({x});
    return run_gelu(x, {});
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::gelu has no second derivative");
    const Tensor x = ctx->get_saved_variables()[0];
    return {run_gelu(x, grads[0].to(x.scalar_type()).contiguous())};
  }
};

}  // namespace

Tensor gelu(const Tensor& x) {
  TORCH_CHECK_TYPE(x.scalar_type() == torch::kFloat || x.scalar_type() == torch::kBFloat16, "gelu input is ",
                   x.scalar_type(), ", expected float32 or bfloat16");
  return GeluFunction::apply(x);
}

}  // namespace tessera::nn
