#pragma once
// Float tolerances from what was rounded, never from what passes: bound = c * eps(type) * norm.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace tessera::testing {

inline constexpr double kEpsF32 = 0x1p-24;  ///< largest relative error of one rounding to f32
inline constexpr double kEpsBf16 = 0x1p-9;  ///< largest relative error of one rounding to bf16 (8 bits of mantissa)

/// Bound on the error of a result that went through `roundings` roundings, each of a value of magnitude up to `norm`
/// (for sums: the sum of the magnitudes along the depth).
inline double error_bound(double roundings, double eps, double norm) { return roundings * eps * norm; }

/// A sum of `depth` products in f32: one rounding per product and at most one per addition on an element's path.
inline double dot_bound(std::int64_t depth, double sum_of_magnitudes) {
  return error_bound(static_cast<double>(depth) + 1, kEpsF32, sum_of_magnitudes);
}

/// Equal bits, or both NaN (the payload of a NaN is nobody's result).
inline bool same_float(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace tessera::testing
