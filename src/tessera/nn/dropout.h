#pragma once
// Dropout from the counter-based generator: the mask is recomputed in backward, never stored.
#include <string_view>

#include "tessera/base/philox.h"
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// Zero elements of `x` (f32 or bf16) with probability `p` and scale the rest by 1 / (1 - p). `name` is the stream.
torch::Tensor dropout(const torch::Tensor& x, double p, std::string_view name, const NoisePosition& noise);

}  // namespace tessera::nn
