#pragma once
// GELU on Tessera's kernel: one pass forward, one backward, from the saved input.
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// GELU in its tanh form, as torch::gelu(x, "tanh"), of f32 or bf16. No second derivative.
torch::Tensor gelu(const torch::Tensor& x);

}  // namespace tessera::nn
