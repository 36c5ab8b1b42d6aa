#pragma once
// Softmax cross-entropy of one chunk of logits, and its gradient in place.
//
//   loss[r] = log(sum_c exp(x[r,c] - max)) + max - x[r, target]          0 where target == kIgnoreTarget
//   x[r,c] <- (softmax(x)[r,c] - [c == target]) * gradient_scale         0 where target == kIgnoreTarget
//
// Canonical arithmetic, in f32 without FMA (sum16 as in layer_norm):
//   e[c] = exp(x[c] - max),  sum = sum16(e),  loss = f32(log(f64(sum)) + (f64(max) - f64(x[target])))
//   inverse = 1 / sum;  x[c] <- e[c] * (inverse * gradient_scale), the target's (e * inverse - 1) * gradient_scale
// exp(a), a <= 0 (Cody & Waite's reduction, Cephes' polynomial; constants in kExp):
//   t = a * log2e + 3 * 2^22, so that the low bits of t hold n = round(a * log2e);  n = t - 3 * 2^22
//   r = (a - n * ln2_high) - n * ln2_low;  q = Horner(c, r);  exp = ((q * (r * r) + r) + 1) * 2^n;  0 when a < -87
// Its relative error is below 2^-23: in units of 2^-24 the last addition contributes 1, q r^2 + r 0.5, r 0.3,
// the polynomial 0.1; the value flushed to 0 is below 2^-125.
// A NaN or +infinity in a row makes its loss and gradient NaN.
#include <array>
#include <cstdint>

#include "tessera/base/isa.h"

namespace tessera::kernels {

inline constexpr std::int64_t kIgnoreTarget = -1;

/// Constants of exp. n * ln2_high is exact: ln2_high has 9 bits, n at most 7.
struct ExpConstants {
  float smallest = -87.0f, log2e = 1.44269504088896341f, round = 12582912.0f;
  float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  std::array<float, 6> c = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                            4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};  ///< highest power first
};
inline constexpr ExpConstants kExp;

struct CrossEntropyParams {
  std::int64_t rows = 0, cols = 0;        ///< tokens, vocabulary
  float* logits = nullptr;                ///< [rows, cols] f32; overwritten by the gradient when `gradient`
  std::int64_t stride = 0;                ///< elements between rows
  const std::int64_t* targets = nullptr;  ///< [rows], 0..cols-1 or kIgnoreTarget (checked above)
  float* loss = nullptr;                  ///< [rows]
  bool gradient = false;
  float gradient_scale = 1;
};

/// All rows, in parallel over rows.
void cross_entropy(const CrossEntropyParams& params, IsaSet isa = enabled_isa());

/// Rows begin..end-1 in plain C++: what every target must equal bit for bit.
void cross_entropy_reference(const CrossEntropyParams& params, std::int64_t begin, std::int64_t end);

/// y[i] = exp(a[i]) as defined above, a[i] <= 0 or NaN; for tests of its accuracy.
void softmax_exp(const float* a, float* y, std::int64_t n, IsaSet isa = enabled_isa());
void softmax_exp_reference(const float* a, float* y, std::int64_t n);

}  // namespace tessera::kernels
