#pragma once
// A matrix to two sets of 8-bit codes in as few passes as possible: along its rows and along its columns, each with a
// foreign scale folded in first, so that both backward products stay integer (spec 7.7.3).
//
//   rows:     g[n,c] = y[n,c] * row_fold[c];   s[n] = max_c |g| / limit;  code = round(g / s[n])   -> [rows, cols]
//   columns:  g[n,c] = column_fold[n] * y[n,c]; s[c] = max_n |g| / limit; code = round(g / s[c])   -> [cols, rows]
//   sum:      column_sum[c] = sum_n y[n,c] in fp32 (the bias gradient, of the unquantized matrix)
//
// limit 98 makes bit-split codes (14 * high + low, both in -7..7), 63 and 127 serve int7 and int8.
// round is nearest-even, or stochastic: SR(v) = floor(v) + [u < v - floor(v)], u = (draw + 0.5) / 65536, the draw being
// a 16-bit half of word (c % 4) of philox(key, {step, micro_batch, row_offset + n, c / 4}): the low half rounds the
// rows, the high half the columns. inverse = 1 / s by IEEE division, v = g * inverse, then clamped to +-limit.
// column_sum adds rows in blocks of 64 (within a block in increasing n, then the blocks in increasing order).
// A group of zeros, or so small that 1 / s is not finite, has scale 0 and codes 0. A group with a g that is NaN or Inf
// has scale NaN and codes 0.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/base/philox.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

enum class Rounding { kNearestEven, kStochastic };

struct FoldQuantizeParams {
  std::int64_t rows = 0, cols = 0;
  FloatRows y;  ///< [rows, cols]
  std::int32_t limit = 98;
  Rounding rounding = Rounding::kStochastic;
  PhiloxKey key;                            ///< read only for kStochastic
  std::uint32_t step = 0, micro_batch = 0;  ///< counter words 0 and 1
  std::uint32_t row_offset = 0;             ///< global index of row 0

  const float* row_fold = nullptr;   ///< [cols] or null: 1
  std::int8_t* row_codes = nullptr;  ///< [rows, row_stride] or null: rows not wanted
  float* row_scales = nullptr;       ///< [rows]
  std::int64_t row_stride = 0;       ///< bytes, >= cols; the gap is written as zero

  const float* column_fold = nullptr;   ///< [rows] or null: 1
  std::int8_t* column_codes = nullptr;  ///< [cols, column_stride], transposed, or null: columns not wanted
  float* column_scales = nullptr;       ///< [cols]
  std::int64_t column_stride = 0;       ///< bytes, >= rows; the gap is written as zero

  float* column_sum = nullptr;  ///< [cols] or null
};

/// Bytes of scratch that fold_quantize needs; 64-byte aligned, contents undefined before and after.
std::int64_t fold_quantize_workspace(const FoldQuantizeParams& params);

/// Quantize, in parallel.
void fold_quantize(const FoldQuantizeParams& params, void* workspace, IsaSet isa = enabled_isa());

/// The same in plain C++, one element after the other: what every target must equal bit for bit.
void fold_quantize_reference(const FoldQuantizeParams& params);

}  // namespace tessera::kernels
