#pragma once
// The exponential of cross_entropy and gelu: the same bits on every target. Its SIMD form is simd/exp-inl.h.
//
// exp(a), a <= 0 (Cody & Waite's reduction, Cephes' polynomial; constants in kExp), in f32 without FMA:
//   t = a * log2e + 3 * 2^22, so that the low bits of t hold n = round(a * log2e);  n = t - 3 * 2^22
//   r = (a - n * ln2_high) - n * ln2_low;  q = Horner(c, r);  exp = ((q * (r * r) + r) + 1) * 2^n;  0 when a < -87
// Its relative error is below 2^-23: in units of 2^-24 the last addition contributes 1, q r^2 + r 0.5, r 0.3,
// the polynomial 0.1; the value flushed to 0 is below 2^-125.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tessera::kernels {

/// Constants of exp. n * ln2_high is exact: ln2_high has 9 bits, n at most 7.
struct ExpConstants {
  float smallest = -87.0f, log2e = 1.44269504088896341f, round = 12582912.0f;
  float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  std::array<float, 6> c = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                            4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};  ///< highest power first
};
inline constexpr ExpConstants kExp;

/// exp(a) as defined above, a <= 0 or NaN.
inline float exp_reference(float a) {
  if (a < kExp.smallest) return 0.0f;
  const float t = a * kExp.log2e + kExp.round;
  const float n = t - kExp.round;
  const float r = (a - n * kExp.ln2_high) - n * kExp.ln2_low;
  float q = kExp.c[0];
  for (std::size_t i = 1; i < kExp.c.size(); ++i) q = q * r + kExp.c[i];
  const float mantissa = (q * (r * r) + r) + 1.0f;
  return mantissa * std::bit_cast<float>((std::bit_cast<std::uint32_t>(t) + 127u) << 23);
}

}  // namespace tessera::kernels
