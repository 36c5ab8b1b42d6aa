#pragma once
// Which source sample i comes from, and which of that source's samples it is, both computed from i alone.
//
// Sources are split off one after another. With q_k = weight_k / (weight_k + ... + weight_last) and m of the first n
// samples left for sources k and on, source k takes floor(m * q_k + u_k) of them, u_k in [0, 1) from the seed.
// Every prefix is therefore within K of its exact share, and counters need no state. q_k and u_k are 64-bit
// fractions and the product is exact, so the split has no rounding at any n.
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::data {

class Mixture {
 public:
  Mixture() = default;
  /// Throws Error for no weights, or one that is not positive and finite.
  Mixture(std::span<const double> weights, std::uint64_t seed);

  struct Pick {
    std::int64_t source;
    std::int64_t index;  ///< how many earlier samples came from this source
    bool operator==(const Pick&) const = default;
  };
  Pick pick(std::int64_t sample) const;

  /// Samples of `source` among the first n.
  std::int64_t count(std::int64_t source, std::int64_t n) const;

 private:
  struct Split {
    std::uint64_t share, phase;  // in units of 2^-64
  };
  std::vector<Split> splits_;  // one less than sources: the last takes what is left
};

}  // namespace tessera::data
