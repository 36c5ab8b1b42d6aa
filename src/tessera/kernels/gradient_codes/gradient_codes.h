#pragma once
// A gradient matrix to codes with one scale for all of it, by stochastic rounding: what the published INT4 recipes do
// where fold_quantize scales rows and columns.
//
//   kSplit  code = SR(clamp(98 y / M, +-98)): two INT4 halves, 14 * high + low (Xi et al. 2023, without the clamps at 6
//           that bias their code); value = M / 98 * code
//   kFp4    code = sign(y) * SR(v), v = 64 |y| / M, among 0, 1, 2, 4, ..., 64 (LUQ, Chmiel et al. 2023): below 1 it is 1
//           with probability v; between 2^e and 2^(e+1) it is the upper with probability (v - 2^e) / 2^e;
//           value = M / 64 * code
// M is the largest magnitude of the matrix, so that nothing clips, and both are unbiased.
//
// Canonical arithmetic in f32: scale = M / 98 or M / 64, inverse = 1 / scale, v = y * inverse clamped to the largest code.
// u = (draw + 0.5) / 65536, the draw being the low half of word (c % 4) of philox(key, {step, micro_batch, row_offset + n,
// c / 4}). kSplit: floor(v) + [u < v - floor(v)]. kFp4, with low = 2^floor(log2 v) and gap = low, or 0 and 1 below 1:
// low + (u * gap < v - low ? gap : 0). A scale that is 0, or so small that 1 / scale is not finite, makes codes 0.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/base/philox.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

enum class GradientGrid { kSplit, kFp4 };

/// Largest code of a grid: 98 or 64.
constexpr std::int32_t gradient_limit(GradientGrid grid) { return grid == GradientGrid::kSplit ? 98 : 64; }

struct GradientCodesParams {
  std::int64_t rows = 0, cols = 0;
  FloatRows y;  ///< [rows, cols], finite
  GradientGrid grid = GradientGrid::kSplit;
  float scale = 0;  ///< M / gradient_limit(grid)
  PhiloxKey key;
  std::uint32_t step = 0, micro_batch = 0;
  std::uint32_t row_offset = 0;  ///< global index of row 0
  std::int8_t* codes = nullptr;  ///< [rows, code_stride]
  std::int64_t code_stride = 0;  ///< bytes, >= cols; the gap is written as zero
};

/// All rows, in parallel.
void gradient_codes(const GradientCodesParams& params, IsaSet isa = enabled_isa());

/// Rows begin..end-1 in plain C++: what every target must equal bit for bit.
void gradient_codes_reference(const GradientCodesParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
