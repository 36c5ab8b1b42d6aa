#pragma once
// The sum that closes a residual branch.
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// `x` + `branch` of one shape, x f32, branch f32 or bf16; the result is f32, the branch's gradient of its own type.
torch::Tensor add_residual(const torch::Tensor& x, const torch::Tensor& branch);

}  // namespace tessera::nn
