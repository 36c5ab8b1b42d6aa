#include "tessera/data/mixture.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/base/philox.h"

namespace tessera::data {
namespace {

__extension__ using Uint128 = unsigned __int128;

/// floor(n * share + phase), both fractions in units of 2^-64.
std::int64_t taken(std::int64_t n, std::uint64_t share, std::uint64_t phase) {
  return static_cast<std::int64_t>((static_cast<Uint128>(static_cast<std::uint64_t>(n)) * share + phase) >> 64);
}

}  // namespace

Mixture::Mixture(std::span<const double> weights, std::uint64_t seed) {
  TESSERA_CHECK(!weights.empty(), "a mixture needs at least one source, got none");
  for (std::size_t k = 0; k < weights.size(); ++k) {
    TESSERA_CHECK(std::isfinite(weights[k]) && weights[k] > 0, "the weight of source {} is {}, expected more than 0", k,
                  weights[k]);
  }
  const PhiloxKey key = philox_key(seed, "mixture", "phase");
  // Scaled by the largest, so that no sum overflows; summed from the back, so that each total is exact to an ulp.
  const double largest = *std::max_element(weights.begin(), weights.end());
  splits_.resize(weights.size() - 1);
  double total = weights.back() / largest;
  for (std::size_t k = splits_.size(); k-- > 0;) {
    const double weight = weights[k] / largest;
    total += weight;
    const double share = std::ldexp(weight / total, 64);
    const PhiloxBlock draw = philox(key, {static_cast<std::uint32_t>(k), 0, 0, 0});
    splits_[k].share = share < 0x1p64 ? static_cast<std::uint64_t>(share) : ~std::uint64_t{0};
    splits_[k].phase = std::uint64_t{draw[0]} << 32 | draw[1];
  }
}

Mixture::Pick Mixture::pick(std::int64_t sample) const {
  TESSERA_DCHECK(sample >= 0);
  std::int64_t left = sample;  // index among the samples of sources k and on
  for (std::size_t k = 0; k < splits_.size(); ++k) {
    const auto [share, phase] = splits_[k];
    const std::int64_t before = taken(left, share, phase);
    if (taken(left + 1, share, phase) > before) {
      return {static_cast<std::int64_t>(k), before};
    }
    left -= before;
  }
  return {static_cast<std::int64_t>(splits_.size()), left};
}

std::int64_t Mixture::count(std::int64_t source, std::int64_t n) const {
  TESSERA_DCHECK(n >= 0 && source >= 0 && source <= static_cast<std::int64_t>(splits_.size()));
  std::int64_t left = n;
  for (std::size_t k = 0; k < splits_.size(); ++k) {
    const std::int64_t mine = taken(left, splits_[k].share, splits_[k].phase);
    if (static_cast<std::int64_t>(k) == source) {
      return mine;
    }
    left -= mine;
  }
  return left;
}

}  // namespace tessera::data
