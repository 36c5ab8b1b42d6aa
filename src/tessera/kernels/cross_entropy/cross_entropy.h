#pragma once
// Softmax cross-entropy of one chunk of logits, and its gradient in place.
//
//   loss[r] = log(sum_c exp(x[r,c] - max)) + max - x[r, target]          0 where target == kIgnoreTarget
//   x[r,c] <- (softmax(x)[r,c] - [c == target]) * gradient_scale         0 where target == kIgnoreTarget
//
// Canonical arithmetic, in f32 without FMA (sum16 as in layer_norm):
//   e[c] = exp(x[c] - max),  sum = sum16(e),  loss = f32(log(f64(sum)) + (f64(max) - f64(x[target]))); exp of exp.h
//   inverse = 1 / sum;  x[c] <- e[c] * (inverse * gradient_scale), the target's (e * inverse - 1) * gradient_scale
// A NaN or +infinity in a row makes its loss and gradient NaN.
#include <cstdint>

#include "tessera/base/isa.h"

namespace tessera::kernels {

inline constexpr std::int64_t kIgnoreTarget = -1;

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

/// y[i] = exp(a[i]) as exp.h defines it, a[i] <= 0 or NaN; for tests of its accuracy.
void softmax_exp(const float* a, float* y, std::int64_t n, IsaSet isa = enabled_isa());
void softmax_exp_reference(const float* a, float* y, std::int64_t n);

}  // namespace tessera::kernels
