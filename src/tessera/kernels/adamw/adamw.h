#pragma once
// AdamW (Loshchilov & Hutter 2019) in one pass over memory, and the sums it needs.
//
//   g = grad * grad_scale;  m = m + (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
//   p = p - lr * weight_decay * p;  p = p - (lr / (1 - beta1^t)) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//
// Canonical arithmetic: in f32 without FMA, after these constants in double, each rounded once to f32:
//   c1 = 1 - beta1,  c2 = 1 - beta2,  decay = lr * weight_decay,  step = lr / (1 - beta1^t),
//   root = 1 / sqrt(1 - beta2^t)
//   g = grad * grad_scale
//   m = flush(m + c1 * (g - m))
//   v = flush(beta2 * v + c2 * (g * g))
//   p = p - decay * p                                  left out when decay is 0
//   p = p - (step * m) / (sqrt(v) * root + eps)
// flush: +0 in place of magnitudes below 2^-126. The state of a parameter without gradient (the row of a token that
// does not occur) would otherwise end as denormal numbers, which cost a hundred times more to compute with.
#include <cstdint>

#include "tessera/base/isa.h"

namespace tessera::kernels {

struct AdamWParams {
  std::int64_t n = 0;
  float* parameter = nullptr;       ///< [n]
  const float* gradient = nullptr;  ///< [n]
  float* m = nullptr;               ///< [n]
  float* v = nullptr;               ///< [n]
  float grad_scale = 1;             ///< from clipping
  float lr = 0, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0;
  std::int64_t t = 1;  ///< step, from 1
};

/// One step over all elements, in parallel.
void adamw(const AdamWParams& params, IsaSet isa = enabled_isa());

/// sum x^2 in double: fixed blocks of 4096, each in 16 interleaved partial sums, blocks added in increasing order.
/// Non-finite when any element is. In parallel.
double sum_of_squares(const float* x, std::int64_t n, IsaSet isa = enabled_isa());

/// Elements begin..end-1, and the sum of one block of n <= 4096 elements, in plain C++: what every target must equal.
void adamw_reference(const AdamWParams& params, std::int64_t begin, std::int64_t end);
double sum_of_squares_reference(const float* x, std::int64_t n);

}  // namespace tessera::kernels
