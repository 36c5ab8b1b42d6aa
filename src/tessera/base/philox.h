#pragma once
// Philox4x32-7, the counter-based generator of Salmon et al. (SC 2011). A draw is a pure function of key and
// counter, so results replay on any ISA, thread count, tile order and world size.
#include <array>
#include <cstdint>
#include <string_view>

namespace tessera {

struct PhiloxKey {
  std::uint32_t k0 = 0, k1 = 0;
  bool operator==(const PhiloxKey&) const = default;
};

using PhiloxBlock = std::array<std::uint32_t, 4>;

inline constexpr int kPhiloxRounds = 7;
inline constexpr std::uint32_t kPhiloxM0 = 0xD2511F53u, kPhiloxM1 = 0xCD9E8D57u;  // multipliers
inline constexpr std::uint32_t kPhiloxW0 = 0x9E3779B9u, kPhiloxW1 = 0xBB67AE85u;  // key increments

/// Return the four words that belong to `counter` under `key`.
constexpr PhiloxBlock philox(PhiloxKey key, PhiloxBlock counter) {
  auto [c0, c1, c2, c3] = counter;
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const std::uint64_t p0 = std::uint64_t{kPhiloxM0} * c0, p1 = std::uint64_t{kPhiloxM1} * c2;
    const auto hi0 = static_cast<std::uint32_t>(p0 >> 32), lo0 = static_cast<std::uint32_t>(p0);
    const auto hi1 = static_cast<std::uint32_t>(p1 >> 32), lo1 = static_cast<std::uint32_t>(p1);
    c0 = hi1 ^ c1 ^ key.k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ key.k1;
    c3 = lo0;
    key.k0 += kPhiloxW0;
    key.k1 += kPhiloxW1;
  }
  return {c0, c1, c2, c3};
}

/// Key of one stream: the run's seed, a name (parameter, sampler) and the role it draws for. Stable across
/// platforms and versions; a checkpoint's run depends on it.
PhiloxKey philox_key(std::uint64_t seed, std::string_view name, std::string_view role);

/// Where a run stands: what all noise of one micro-batch has in common.
struct NoisePosition {
  std::uint64_t seed = 0;
  std::uint32_t step = 0, micro_batch = 0;
};

/// Uniform float in [0, 1), 24 bits, from a word.
constexpr float uniform_float(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace tessera
