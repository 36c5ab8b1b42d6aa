// gradient_codes as its header says it, element by element.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/kernels/gradient_codes/gradient_codes.h"

namespace tessera::kernels {
namespace {

float element(const GradientCodesParams& p, std::int64_t n, std::int64_t c) {
  const std::int64_t i = n * p.y.stride + c;
  return p.y.type == FloatType::kF32 ? static_cast<const float*>(p.y.data)[i]
                                     : from_bf16(static_cast<const std::uint16_t*>(p.y.data)[i]);
}

float round_split(float v, float u) {
  const float below = std::floor(v);
  return below + (u < v - below ? 1.0f : 0.0f);
}

float round_fp4(float v, float u) {
  const float magnitude = std::fabs(v);
  float low = 0, gap = 1;
  if (magnitude >= 1) low = gap = std::exp2(std::floor(std::log2(magnitude)));
  const float code = low + (u * gap < magnitude - low ? gap : 0.0f);
  return v < 0 ? -code : code;
}

}  // namespace

void gradient_codes_reference(const GradientCodesParams& p, std::int64_t begin, std::int64_t end) {
  const float inverse = 1.0f / p.scale;
  const auto limit = static_cast<float>(gradient_limit(p.grid));
  for (std::int64_t n = begin; n < end; ++n) {
    std::int8_t* codes = p.codes + n * p.code_stride;
    std::memset(codes, 0, static_cast<std::size_t>(p.code_stride));
    if (!std::isfinite(inverse)) continue;
    for (std::int64_t c = 0; c < p.cols; ++c) {
      const PhiloxBlock words = philox(p.key, {p.step, p.micro_batch, p.row_offset + static_cast<std::uint32_t>(n),
                                               static_cast<std::uint32_t>(c / 4)});
      const float u = (static_cast<float>(words[static_cast<std::size_t>(c % 4)] & 0xffffu) + 0.5f) / 65536.0f;
      const float v = std::min(std::max(element(p, n, c) * inverse, -limit), limit);
      const float code = p.grid == GradientGrid::kSplit ? round_split(v, u) : round_fp4(v, u);
      codes[c] = static_cast<std::int8_t>(std::min(std::max(code, -limit), limit));
    }
  }
}

}  // namespace tessera::kernels
