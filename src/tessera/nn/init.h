#pragma once
// Initialization that does not depend on the world size: element i of parameter p is a function of (seed, p, i).
#include <cstdint>
#include <string_view>

#include "tessera/quant/torch.h"

namespace tessera::nn {

/// Fill `parameter` (f32, contiguous) with N(0, std^2) by Box-Muller on Philox draws; element i of the whole parameter
/// has index `first + i`, so that a shard fills only its rows.
void init_normal(const torch::Tensor& parameter, double std, std::uint64_t seed, std::string_view name,
                 std::int64_t first = 0);

}  // namespace tessera::nn
