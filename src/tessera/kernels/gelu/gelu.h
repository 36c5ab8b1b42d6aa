#pragma once
// GELU in its tanh form (Hendrycks & Gimpel 2016), forward and backward, one pass over memory each.
//
//   y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) = x s,  s = sigmoid(z),  z = x (k0 + k1 x^2)
//   dx = dy (s + x s (1 - s) z'),  z' = k0 + 3 k1 x^2
//
// Canonical arithmetic, in f32 without FMA, exp of exp.h: c = x clamped to +-16, where s is 0 or 1 already;
//   z = c * (k0 + k1 * (c * c));  e = exp(-|z|);  a = 1 / (1 + e);  s = z >= 0 ? a : e * a;  y = x * s
//   dx = dy * (s + (x * (e * (a * a))) * (k0 + k3 * (c * c)))
// bf16 is widened and the result rounded once. A value that is not finite gives NaN, but +infinity forward.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct GeluConstants {
  float k0 = 1.5957691216057308f;  ///< 2 sqrt(2/pi)
  float k1 = 1.5957691216057308f * 0.044715f;
  float k3 = 1.5957691216057308f * 0.044715f * 3;
  float clamp = 16;
};
inline constexpr GeluConstants kGelu;

struct GeluParams {
  std::int64_t n = 0;
  FloatType type = FloatType::kF32;
  const void* x = nullptr;   ///< [n]
  const void* dy = nullptr;  ///< [n]: backward; null: forward
  void* out = nullptr;       ///< [n]: y, or dx; may be x or dy
};

/// All elements, in parallel.
void gelu(const GeluParams& params, IsaSet isa = enabled_isa());

/// Elements begin..end-1 in plain C++: what every target must equal bit for bit.
void gelu_reference(const GeluParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
