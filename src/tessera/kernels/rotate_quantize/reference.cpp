// rotate_quantize as its header says it, one element after the other.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tessera/base/int4.h"
#include "tessera/kernels/gelu/gelu.h"
#include "tessera/kernels/rotate_quantize/rotate_quantize.h"

namespace tessera::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float element(const FloatRows& x, std::int64_t r, std::int64_t c) {
  const std::int64_t i = r * x.stride + c;
  return x.type == FloatType::kF32 ? static_cast<const float*>(x.data)[i]
                                   : from_bf16(static_cast<const std::uint16_t*>(x.data)[i]);
}

// t = the block of row r that starts at column c, rotated.
void rotate_block(const RotateQuantizeParams& p, std::int64_t r, std::int64_t c, float* t) {
  for (int i = 0; i < p.block; ++i) t[i] = element(p.x, r, c + i);
  for (int stride = 1; stride < p.block; stride *= 2) {
    for (int i = 0; i < p.block; ++i) {
      if (i & stride) continue;
      const float a = t[i], b = t[i + stride];
      t[i] = a + b;
      t[i + stride] = a - b;
    }
  }
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(p.block)));
  for (int i = 0; i < p.block; ++i) t[i] *= factor;
}

struct RowStatistics {
  float sum_of_squares = 0, sum_of_magnitudes = 0, absmax = 0;
  bool finite = true;
};

RowStatistics measure(const RotateQuantizeParams& p, std::int64_t r) {
  RowStatistics row;
  float sums[16] = {}, magnitudes[16] = {};
  float t[256];
  for (std::int64_t c = 0; c < p.cols; c += p.block) {
    rotate_block(p, r, c, t);
    for (int i = 0; i < p.block; ++i) {
      sums[(c + i) % 16] += t[i] * t[i];
      magnitudes[(c + i) % 16] += std::abs(t[i]);
      if (std::abs(t[i]) > row.absmax) row.absmax = std::abs(t[i]);
      row.finite = row.finite && std::isfinite(t[i]);
    }
  }
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half], magnitudes[i] += magnitudes[i + half];
  row.sum_of_squares = sums[0];
  row.sum_of_magnitudes = magnitudes[0];
  return row;
}

// The scale as it is stored, and its inverse: 0 for a row of zeros and for one that is not finite.
struct Scale {
  float scale, inverse;
};
Scale make_scale(float s, bool finite) {
  if (!finite || !std::isfinite(s)) return {kNan, 0};
  const float inverse = 1.0f / s;
  if (!std::isfinite(inverse)) return {0, 0};
  return {s, inverse};
}

void write_rms4(const RotateQuantizeParams& p, std::int64_t r, const RowStatistics& row) {
  const float mean = row.sum_of_squares / static_cast<float>(p.cols);
  const float rms = p.cols == 0 ? 0 : kRms7 * std::sqrt(mean);
  const auto [scale, inverse] = make_scale(p.int4_scale > 0 ? p.int4_scale : rms, row.finite);
  std::uint8_t* packed = p.int4_packed ? p.int4_packed + r * int4_bytes(p.cols) : nullptr;
  std::int8_t* codes = p.int4_codes ? p.int4_codes + r * p.code_stride : nullptr;
  std::uint8_t* mask = p.trust_mask ? p.trust_mask + r * ((p.cols + 7) / 8) : nullptr;
  if (p.int4_scales) p.int4_scales[r] = scale;
  if (packed) std::memset(packed, 0, static_cast<std::size_t>(int4_bytes(p.cols)));
  if (codes) std::memset(codes, 0, static_cast<std::size_t>(p.code_stride));
  if (mask) std::memset(mask, 0, static_cast<std::size_t>((p.cols + 7) / 8));
  if (std::isnan(scale)) return;
  float t[256];
  for (std::int64_t c = 0; c < p.cols; ++c) {
    if (c % p.block == 0) rotate_block(p, r, c, t);
    const float v = t[c % p.block] * inverse;
    const int code = static_cast<int>(std::fmin(std::fmax(std::nearbyint(v), -7.0f), 7.0f));
    if (packed) int4_set(packed, c, code);
    if (codes) codes[c] = static_cast<std::int8_t>(code);
    if (mask && std::abs(v) <= p.trust_edge) mask[c / 8] = static_cast<std::uint8_t>(mask[c / 8] | (1u << (c % 8)));
  }
}

void write_absmax(const RotateQuantizeParams& p, std::int64_t r, const RowStatistics& row) {
  const auto [scale, inverse] = make_scale(row.absmax / static_cast<float>(p.absmax_limit), row.finite);
  std::int8_t* codes = p.absmax_codes + r * p.code_stride;
  p.absmax_scales[r] = scale;
  std::memset(codes, 0, static_cast<std::size_t>(p.code_stride));
  if (std::isnan(scale)) return;
  float t[256];
  for (std::int64_t c = 0; c < p.cols; ++c) {
    if (c % p.block == 0) rotate_block(p, r, c, t);
    codes[c] = static_cast<std::int8_t>(std::nearbyint(t[c % p.block] * inverse));
  }
}

// f of the rows, by its own reference, then the rest on the result.
void quantize_mapped(const RotateQuantizeParams& p, std::int64_t begin, std::int64_t end) {
  std::vector<float> mapped(static_cast<std::size_t>(end * p.cols));
  for (std::int64_t r = begin; r < end; ++r) {
    float* y = mapped.data() + r * p.cols;
    for (std::int64_t c = 0; c < p.cols; ++c) y[c] = element(p.x, r, c);
    if (p.map == RowMap::kGelu) {
      gelu_reference({.n = p.cols, .type = FloatType::kF32, .x = y, .out = y}, 0, p.cols);
    } else {
      LayerNormParams norm = p.layer_norm;
      norm.rows = 1, norm.cols = p.cols, norm.x = y, norm.y = {y, FloatType::kF32, p.cols};
      norm.mean += r, norm.rstd += r;
      layer_norm_reference(norm, 0, 1);
    }
  }
  RotateQuantizeParams rest = p;
  rest.x = {mapped.data(), FloatType::kF32, p.cols};
  rest.map = RowMap::kNone;
  rotate_quantize_reference(rest, begin, end);
}

}  // namespace

void rotate_quantize_reference(const RotateQuantizeParams& p, std::int64_t begin, std::int64_t end) {
  if (p.map != RowMap::kNone) return quantize_mapped(p, begin, end);
  for (std::int64_t r = begin; r < end; ++r) {
    const RowStatistics row = measure(p, r);
    write_rms4(p, r, row);
    if (p.abs_sums) p.abs_sums[r] = row.sum_of_magnitudes;
    if (p.square_sums) p.square_sums[r] = row.sum_of_squares;
    if (p.absmax_codes) write_absmax(p, r, row);
  }
}

}  // namespace tessera::kernels
