// gelu as its header says it, element by element.
#include <algorithm>
#include <cmath>

#include "tessera/kernels/exp.h"
#include "tessera/kernels/gelu/gelu.h"

namespace tessera::kernels {
namespace {

float load(const void* data, FloatType type, std::int64_t i) {
  return type == FloatType::kF32 ? static_cast<const float*>(data)[i]
                                 : from_bf16(static_cast<const std::uint16_t*>(data)[i]);
}

}  // namespace

void gelu_reference(const GeluParams& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float x = load(p.x, p.type, i);
    const float c = std::min(std::max(x, -kGelu.clamp), kGelu.clamp);
    const float z = c * (kGelu.k0 + kGelu.k1 * (c * c));
    const float e = exp_reference(-std::fabs(z));
    const float a = 1.0f / (1.0f + e);
    const float s = z >= 0 ? a : e * a;
    const float value =
        p.dy == nullptr ? x * s : load(p.dy, p.type, i) * (s + (x * (e * (a * a))) * (kGelu.k0 + kGelu.k3 * (c * c)));
    if (p.type == FloatType::kF32) {
      static_cast<float*>(p.out)[i] = value;
    } else {
      static_cast<std::uint16_t*>(p.out)[i] = to_bf16(value);
    }
  }
}

}  // namespace tessera::kernels
