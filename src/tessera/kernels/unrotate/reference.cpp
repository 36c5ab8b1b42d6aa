// unrotate as its header says it, one block after the other.
#include <cmath>

#include "tessera/kernels/gelu/gelu.h"
#include "tessera/kernels/unrotate/unrotate.h"

namespace tessera::kernels {
namespace {

float read(const void* data, FloatType type, std::int64_t i) {
  return type == FloatType::kF32 ? static_cast<const float*>(data)[i]
                                 : from_bf16(static_cast<const std::uint16_t*>(data)[i]);
}

void write(void* data, FloatType type, std::int64_t i, float value) {
  if (type == FloatType::kF32) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<std::uint16_t*>(data)[i] = to_bf16(value);
  }
}

}  // namespace

void unrotate_reference(const UnrotateParams& p, std::int64_t begin, std::int64_t end) {
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(p.block)));
  float v[256];
  for (std::int64_t r = begin; r < end; ++r) {
    const std::uint8_t* mask = p.mask ? p.mask + r * ((p.cols + 7) / 8) : nullptr;
    for (std::int64_t c = 0; c < p.cols; c += p.block) {
      for (int i = 0; i < p.block; ++i) {
        const bool kept = !mask || ((mask[(c + i) / 8] >> ((c + i) % 8)) & 1);
        v[i] = kept ? read(p.t.data, p.t.type, r * p.t.stride + c + i) : 0.0f;
      }
      for (int stride = 1; stride < p.block; stride *= 2) {
        for (int i = 0; i < p.block; ++i) {
          if (i & stride) continue;
          const float a = v[i], b = v[i + stride];
          v[i] = a + b;
          v[i + stride] = a - b;
        }
      }
      for (int i = 0; i < p.block; ++i) {
        const std::int64_t at = r * p.y.stride + c + i;
        float value = p.block == 1 ? v[i] : v[i] * factor;
        if (p.gelu_x) {
          const float x = read(p.gelu_x, p.y.type, at);
          gelu_reference({.n = 1, .type = FloatType::kF32, .x = &x, .dy = &value, .out = &value}, 0, 1);
        }
        write(p.y.data, p.y.type, at, value);
      }
    }
  }
}

}  // namespace tessera::kernels
