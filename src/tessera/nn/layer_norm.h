#pragma once
// LayerNorm with gradients that do not depend on the thread count; torch's weight and bias gradients do (spec 1.3.5).
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// Normalize `x` [..., width] f32 over its last dimension; `weight` and `bias` [width] f32, `bias` may be undefined.
/// The result is f32 or bf16, as asked.
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                         torch::ScalarType dtype, float eps = 1e-5f);

/// Gradients of a LayerNorm's operands.
struct LayerNormGradients {
  torch::Tensor x, weight, bias;  ///< `bias` only when asked for
};
/// Outside autograd: `x` [..., width] f32 contiguous, `mean` and `rstd` [rows] of its forward pass, `dy` f32 or bf16.
LayerNormGradients layer_norm_backward(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& mean,
                                       const torch::Tensor& rstd, const torch::Tensor& dy, bool want_bias);

}  // namespace tessera::nn
