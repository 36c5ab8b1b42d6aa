#pragma once
// A permutation of 0..n - 1 evaluated point by point: a balanced Feistel network of 8 Philox rounds on the smallest
// even number of bits that holds n, walked along its cycles back into the range (fewer than 4 steps on average).
#include <cstdint>

#include "tessera/base/philox.h"

namespace tessera::data {

/// Image of `i`, 0 <= i < n, under the permutation that belongs to (key, epoch).
std::int64_t permute(PhiloxKey key, std::int64_t epoch, std::int64_t n, std::int64_t i);

}  // namespace tessera::data
