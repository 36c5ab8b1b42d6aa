#pragma once
// LayerNorm with gradients that do not depend on the thread count; torch's weight and bias gradients do (spec 1.3.5).
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// Normalize `x` [..., width] f32 over its last dimension; `weight` and `bias` [width] f32, `bias` may be undefined.
/// The result is f32 or bf16, as asked.
torch::Tensor layer_norm(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                         torch::ScalarType dtype, float eps = 1e-5f);

}  // namespace tessera::nn
