#include "tessera/nn/layer_norm.h"

#include "tessera/base/part_timers.h"
#include "tessera/kernels/layer_norm/layer_norm.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct LayerNormFunction : torch::autograd::Function<LayerNormFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x_in, const Tensor& weight,
                        const std::optional<Tensor>& bias, torch::ScalarType dtype, double eps) {
    const ScopedPart part(Part::kLayerNorm);
    quant::use_torch_threads();
    const Tensor x = x_in.contiguous();
    kernels::LayerNormParams params;
    params.cols = x.size(-1);
    params.rows = x.numel() / params.cols;
    Tensor y = torch::empty(x.sizes(), x.options().dtype(dtype).requires_grad(false));
    Tensor mean = torch::empty({params.rows}, torch::kFloat), rstd = torch::empty({params.rows}, torch::kFloat);
    params.x = x.const_data_ptr<float>();
    params.weight = weight.const_data_ptr<float>();
    params.bias = bias ? bias->const_data_ptr<float>() : nullptr;
    params.eps = static_cast<float>(eps);
    params.y = {y.mutable_data_ptr(), quant::float_type(y.scalar_type()), params.cols};
    params.mean = mean.mutable_data_ptr<float>();
    params.rstd = rstd.mutable_data_ptr<float>();
    kernels::layer_norm(params);
    ctx->save_for_backward({x, weight, mean, rstd});
    ctx->saved_data["bias"] = bias.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::layer_norm has no second derivative");
    const variable_list saved = ctx->get_saved_variables();
    const LayerNormGradients grad =
        layer_norm_backward(saved[0], saved[1], saved[2], saved[3], grads[0], ctx->saved_data["bias"].toBool());
    return {grad.x, grad.weight, grad.bias, Tensor(), Tensor()};
  }
};

}  // namespace

LayerNormGradients layer_norm_backward(const Tensor& x, const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                                       const Tensor& dy_in, bool want_bias) {
  const ScopedPart part(Part::kLayerNorm);
  quant::use_torch_threads();
  const Tensor dy = dy_in.contiguous();
  kernels::LayerNormBackwardParams params;
  params.cols = x.size(-1);
  params.rows = x.numel() / params.cols;
  LayerNormGradients out{torch::empty_like(x), torch::empty_like(weight), {}};
  if (want_bias) out.bias = torch::empty_like(weight);
  const Tensor workspace =
      torch::empty({kernels::layer_norm_backward_workspace(params.rows, params.cols)}, torch::kFloat);
  params.x = x.const_data_ptr<float>();
  params.weight = weight.const_data_ptr<float>();
  params.mean = mean.const_data_ptr<float>();
  params.rstd = rstd.const_data_ptr<float>();
  params.dy = {dy.const_data_ptr(), quant::float_type(dy.scalar_type()), params.cols};
  params.dx = out.x.mutable_data_ptr<float>();
  params.dweight = out.weight.mutable_data_ptr<float>();
  params.dbias = want_bias ? out.bias.mutable_data_ptr<float>() : nullptr;
  kernels::layer_norm_backward(params, workspace.mutable_data_ptr<float>());
  return out;
}

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, torch::ScalarType dtype, float eps) {
  TORCH_CHECK_TYPE(x.scalar_type() == torch::kFloat, "layer_norm input is ", x.scalar_type(), ", expected float32");
  TORCH_CHECK_TYPE(dtype == torch::kFloat || dtype == torch::kBFloat16, "layer_norm output is ", dtype,
                   ", expected float32 or bfloat16");
  TORCH_CHECK_VALUE(x.dim() >= 1 && x.size(-1) == weight.numel(), "layer_norm over ", weight.numel(),
                    " features got shape ", x.sizes());
  return LayerNormFunction::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, dtype,
                                  static_cast<double>(eps));
}

}  // namespace tessera::nn
