#pragma once
// Seeded data for tests and benches: a pure function of the seed, the same on every machine.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "tessera/base/philox.h"

namespace tessera::testing {

/// Word `i` of the stream `seed`.
inline std::uint32_t random_word(std::uint64_t seed, std::uint64_t i) {
  const PhiloxKey key{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
  const PhiloxBlock words =
      philox(key, {0x7e57u, 0, static_cast<std::uint32_t>(i >> 34), static_cast<std::uint32_t>(i >> 2)});
  return words[i % 4];
}

/// Uniform double in (0, 1), 32 bits.
inline double random_uniform(std::uint64_t seed, std::uint64_t i) { return (random_word(seed, i) + 0.5) * 0x1p-32; }

/// N(0, 1) by Box and Muller.
inline float random_normal(std::uint64_t seed, std::uint64_t i) {
  const double u = random_uniform(seed, 2 * i), v = random_uniform(seed, 2 * i + 1);
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
}

/// `n` values of N(0, 1).
inline std::vector<float> normal_values(std::size_t n, std::uint64_t seed) {
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = random_normal(seed, i);
  return values;
}

/// [rows, cols] of N(0, 1) where every `period`-th column is `factor` times as large.
inline std::vector<float> outlier_columns(std::size_t rows, std::size_t cols, std::size_t period, float factor,
                                          std::uint64_t seed) {
  std::vector<float> values = normal_values(rows * cols, seed);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < cols; c += period) values[r * cols + c] *= factor;
  return values;
}

/// Finite values of all magnitudes: random bits, denormals, zeros of both signs, ties, largest and smallest numbers.
inline std::vector<float> extreme_values(std::size_t n, std::uint64_t seed) {
  using Limits = std::numeric_limits<float>;
  static constexpr float kSpecial[] = {0.0f,
                                       -0.0f,
                                       1.0f,
                                       -1.0f,
                                       0.5f,
                                       -0.5f,
                                       2.5f,
                                       -2.5f,
                                       Limits::min(),
                                       -Limits::min(),
                                       3e-39f,
                                       -3e-39f,
                                       Limits::denorm_min(),
                                       1e18f,
                                       -1e18f};
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t word = random_word(seed, i);
    values[i] = word % 3 == 0 ? kSpecial[(word / 3) % std::size(kSpecial)]
                              : std::ldexp(random_normal(seed + 1, i), static_cast<int>(word >> 16) % 60 - 30);
  }
  return values;
}

/// Random bytes.
inline std::vector<std::uint8_t> random_bytes(std::size_t n, std::uint64_t seed) {
  std::vector<std::uint8_t> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::uint8_t>(random_word(seed, i) >> 11);
  return bytes;
}

/// Codes in -limit..limit.
inline std::vector<std::int8_t> random_codes(std::size_t n, int limit, std::uint64_t seed) {
  std::vector<std::int8_t> codes(n);
  const auto span = static_cast<std::uint32_t>(2 * limit + 1);
  for (std::size_t i = 0; i < n; ++i)
    codes[i] = static_cast<std::int8_t>(static_cast<int>(random_word(seed, i) % span) - limit);
  return codes;
}

}  // namespace tessera::testing
