#pragma once
// AdamW (Loshchilov & Hutter 2019) in one pass over memory, and the sums it needs.
//
//   g = grad * grad_scale;  m = m + (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g^2
//   p = p - lr * weight_decay * p;  p = p - (lr / (1 - beta1^t)) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
// Elementwise and without FMA: bits do not depend on ISA or thread count.
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
  std::int64_t t = 1;               ///< step, from 1
};
void adamw(const AdamWParams& params, IsaSet isa = enabled_isa());

/// sum x^2 in double: fixed blocks of 4096, each in 16 interleaved partial sums, blocks added in increasing order.
/// Non-finite when any element is. In parallel.
double sum_of_squares(const float* x, std::int64_t n, IsaSet isa = enabled_isa());

}  // namespace tessera::kernels
