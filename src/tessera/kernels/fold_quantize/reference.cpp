// fold_quantize as its header says it: one group after the other, threads only because it may have to train.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/base/parallel.h"
#include "tessera/kernels/fold_quantize/fold_quantize.h"

namespace tessera::kernels {
namespace {

float element(const FoldQuantizeParams& p, std::int64_t n, std::int64_t c) {
  const std::int64_t i = n * p.y.stride + c;
  return p.y.type == FloatType::kF32 ? static_cast<const float*>(p.y.data)[i]
                                     : from_bf16(static_cast<const std::uint16_t*>(p.y.data)[i]);
}

float folded(const FoldQuantizeParams& p, std::int64_t n, std::int64_t c, bool rows) {
  const float fold = rows ? (p.row_fold ? p.row_fold[c] : 1.0f) : (p.column_fold ? p.column_fold[n] : 1.0f);
  return element(p, n, c) * fold;
}

std::int8_t round_code(const FoldQuantizeParams& p, float v, std::int64_t n, std::int64_t c, bool rows) {
  float code = std::nearbyint(v);
  if (p.rounding == Rounding::kStochastic) {
    const PhiloxBlock words = philox(p.key, {p.step, p.micro_batch, p.row_offset + static_cast<std::uint32_t>(n),
                                             static_cast<std::uint32_t>(c / 4)});
    const std::uint32_t word = words[static_cast<std::size_t>(c % 4)], draw = rows ? word & 0xffffu : word >> 16;
    const float u = (static_cast<float>(draw) + 0.5f) / 65536.0f, below = std::floor(v);
    code = below + (u < v - below ? 1.0f : 0.0f);
  }
  const auto limit = static_cast<float>(p.limit);
  return static_cast<std::int8_t>(std::fmin(std::fmax(code, -limit), limit));
}

// Quantize row `g` (rows) or column `g` (columns): `size` elements, then zeros up to `stride`.
void quantize_group(const FoldQuantizeParams& p, std::int64_t g, bool rows) {
  const std::int64_t size = rows ? p.cols : p.rows, stride = rows ? p.row_stride : p.column_stride;
  std::int8_t* codes = (rows ? p.row_codes : p.column_codes) + g * stride;
  float& scale = (rows ? p.row_scales : p.column_scales)[g];
  std::memset(codes, 0, static_cast<std::size_t>(stride));
  float absmax = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < size; ++i) {
    const float value = rows ? folded(p, g, i, true) : folded(p, i, g, false);
    finite = finite && std::isfinite(value);
    absmax = std::max(absmax, std::abs(value));
  }
  scale = finite ? absmax / static_cast<float>(p.limit) : std::numeric_limits<float>::quiet_NaN();
  if (!finite) return;
  const float inverse = 1.0f / scale;
  if (!std::isfinite(inverse)) {
    scale = 0;
    return;
  }
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t n = rows ? g : i, c = rows ? i : g;
    codes[i] = round_code(p, folded(p, n, c, rows) * inverse, n, c, rows);
  }
}

float sum_column(const FoldQuantizeParams& p, std::int64_t c) {
  float total = 0;
  for (std::int64_t first = 0; first < p.rows; first += 64) {
    float block = 0;
    for (std::int64_t n = first; n < std::min(first + 64, p.rows); ++n) block += element(p, n, c);
    total += block;
  }
  return total;
}

}  // namespace

void fold_quantize_reference(const FoldQuantizeParams& p) {
  if (p.row_codes) {
    parallel_for(0, p.rows, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) quantize_group(p, n, true);
    });
  }
  parallel_for(0, p.cols, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      if (p.column_codes) quantize_group(p, c, false);
      if (p.column_sum) p.column_sum[c] = sum_column(p, c);
    }
  });
}

}  // namespace tessera::kernels
