#include "tessera/data/permutation.h"

#include <bit>

#include "tessera/base/check.h"

namespace tessera::data {
namespace {

constexpr std::uint32_t kRounds = 8;

std::uint64_t feistel(PhiloxKey key, std::uint64_t epoch, int half_bits, std::uint64_t x) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = x >> half_bits, right = x & mask;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    const PhiloxBlock block = philox(key, {static_cast<std::uint32_t>(right), round, static_cast<std::uint32_t>(epoch),
                                           static_cast<std::uint32_t>(epoch >> 32)});
    const std::uint64_t next = (left ^ block[0]) & mask;
    left = right;
    right = next;
  }
  return left << half_bits | right;
}

}  // namespace

std::int64_t permute(PhiloxKey key, std::int64_t epoch, std::int64_t n, std::int64_t i) {
  TESSERA_DCHECK(epoch >= 0 && i >= 0 && i < n);
  const int half_bits = (std::bit_width(static_cast<std::uint64_t>(n - 1)) + 1) / 2;  // <= 32: halves fit a word
  auto x = static_cast<std::uint64_t>(i);
  do {  // ends: the walk follows a cycle of a permutation, which returns to i < n at the latest
    x = feistel(key, static_cast<std::uint64_t>(epoch), half_bits, x);
  } while (x >= static_cast<std::uint64_t>(n));
  return static_cast<std::int64_t>(x);
}

}  // namespace tessera::data
