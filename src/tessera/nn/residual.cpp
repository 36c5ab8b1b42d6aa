#include "tessera/nn/residual.h"

#include "tessera/kernels/residual/residual.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct ResidualFunction : torch::autograd::Function<ResidualFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& branch_in) {
    quant::use_torch_threads();
    const Tensor x = x_in.contiguous(), branch = branch_in.contiguous();
    Tensor out = torch::empty(x.sizes(), x.options().requires_grad(false));
    kernels::residual({.n = x.numel(),
                       .x = x.const_data_ptr<float>(),
                       .y = branch.const_data_ptr(),
                       .type = quant::float_type(branch.scalar_type()),
                       .out = out.mutable_data_ptr<float>()});
    ctx->saved_data["type"] = branch.scalar_type();
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {grads[0], grads[0].to(ctx->saved_data["type"].toScalarType())};
  }
};

}  // namespace

Tensor add_residual(const Tensor& x, const Tensor& branch) {
  TORCH_CHECK_TYPE(x.scalar_type() == torch::kFloat, "residual stream is ", x.scalar_type(), ", expected float32");
  TORCH_CHECK_VALUE(x.sizes() == branch.sizes(), "residual stream has shape ", x.sizes(), ", its branch ",
                    branch.sizes());
  return ResidualFunction::apply(x, branch);
}

}  // namespace tessera::nn
