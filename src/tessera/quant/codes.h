#pragma once
// Tensor level of the kernels: codes with their scales, and the integer product of two sets of codes.
// No autograd here. Inputs are f32 or bf16 matrices with contiguous columns; errors are c10::ValueError / TypeError.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "tessera/base/philox.h"
#include "tessera/kernels/fold_quantize/fold_quantize.h"
#include "tessera/kernels/rotate_quantize/rotate_quantize.h"

namespace tessera::quant {

using kernels::Rounding;
using kernels::RowMap;

/// A tensor's dtype as kernels name it; throws c10::TypeError for all but float32 and bfloat16.
kernels::FloatType float_type(at::ScalarType dtype);

/// `x`, a matrix with contiguous columns, as kernels read or write it; throws for other shapes and dtypes.
kernels::FloatRows float_rows(const at::Tensor& x);
kernels::MutableFloatRows mutable_float_rows(const at::Tensor& x);

/// One code per byte, rows padded with zero codes so that igemm can read them as its left operand.
struct RowCodes {
  std::int64_t rows = 0, cols = 0;
  at::Tensor codes;          ///< [rows, igemm_a_stride(cols)] int8
  at::Tensor scales;         ///< [rows] f32; value = scale * code
  std::int32_t limit = 127;  ///< largest magnitude of a code
};

/// Packed INT4 codes of rotated rows.
struct Int4Codes {
  std::int64_t rows = 0, cols = 0;
  std::int32_t block = 1;  ///< Hadamard block
  at::Tensor packed;       ///< [rows, ceil(cols / 2)] uint8
  at::Tensor scales;       ///< [rows] f32
  at::Tensor trust_mask;   ///< [rows, ceil(cols / 8)] uint8 or undefined: nothing was clipped, or nobody asked
};

/// Right operand of igemm.
struct Panels {
  std::int64_t n = 0, k = 0;
  at::Tensor data;           ///< int8
  std::int32_t limit = 127;  ///< largest magnitude of a code
};

/// What rotate_rows makes of a matrix in one pass.
struct RotateRequest {
  std::int32_t block = 1;    ///< 1: no rotation
  bool int4_packed = false;  ///< RMS-scaled INT4 codes, packed
  bool int4_left = false;    ///< the same, one per byte
  bool trust_mask = false;
  std::int32_t absmax_limit = 0;  ///< 63, 98 or 127: absmax-scaled codes, one per byte; 0: none

  RowMap map = RowMap::kNone;             ///< what is done to a row first
  at::Tensor norm_weight{}, norm_bias{};  ///< [cols] f32 of kLayerNorm; the bias may be undefined
};
struct RotatedRows {
  Int4Codes int4;
  RowCodes int4_left, absmax;
  at::Tensor norm_mean, norm_rstd;  ///< [rows] f32 of kLayerNorm
};

/// Rotate, scale and round the rows of `x` [rows, cols].
RotatedRows rotate_rows(const at::Tensor& x, const RotateRequest& request);

/// INT4 codes of the rows of `x` [rows, cols], rotated, by stochastic rounding with scale absmax / 7: unbiased, never
/// clipped. Draws as fold_quantize's rows.
Int4Codes stochastic_int4(const at::Tensor& x, std::int32_t block, PhiloxKey key, NoisePosition noise,
                          std::int64_t row_offset);

struct FoldRequest {
  std::int32_t limit = 98;
  Rounding rounding = Rounding::kStochastic;
  PhiloxKey key{};
  NoisePosition noise{};
  std::int64_t row_offset = 0;
  bool rows = false, columns = false, sum = false;
  at::Tensor row_fold{}, column_fold{};  ///< [cols], [rows] f32 or undefined
};
struct FoldedCodes {
  RowCodes rows;     ///< of y [rows, cols]
  RowCodes columns;  ///< of its transpose [cols, rows]
  at::Tensor sum;    ///< [cols] f32, column sums of the unquantized matrix
};

/// Quantize `y` [rows, cols] along its rows, its columns, or both.
FoldedCodes fold_quantize(const at::Tensor& y, const FoldRequest& request);

/// Pack a right operand. `transposed`: contract along the codes' rows instead of their columns.
Panels pack_panels(const Int4Codes& codes, bool transposed);
Panels pack_panels(const RowCodes& codes, bool transposed);

/// Integer product a [m, k] x b [n, k]^T with fused epilogue: (acc * a.scales[m]) * col_scale[n] + bias[n].
/// `dtype` kFloat or kBFloat16. Throws when k * a.limit * b.limit exceeds what INT32 holds.
at::Tensor int_matmul(const RowCodes& a, const Panels& b, const at::Tensor& col_scale, const at::Tensor& bias,
                      at::ScalarType dtype);

/// The same into `out` [m, n], rows as far apart as they are there.
void int_matmul_out(const RowCodes& a, const Panels& b, const at::Tensor& col_scale, const at::Tensor& bias,
                    const at::Tensor& out);

/// The same without column scale and bias, added to `out` [m, n] f32.
void int_matmul_add(const RowCodes& a, const Panels& b, const at::Tensor& out);

/// ((mask * t) H) as `dtype`; `mask` as Int4Codes::trust_mask. In place when `t` has that dtype. With `gelu_x` [rows,
/// cols] of that dtype, the gradient of GELU's input instead of its output's.
at::Tensor unrotate(const at::Tensor& t, const at::Tensor& mask, std::int32_t block, at::ScalarType dtype,
                    const at::Tensor& gelu_x = {});

/// Codes as f32 [rows, cols], still rotated: for inspection and tests.
at::Tensor dequantize(const Int4Codes& codes);

}  // namespace tessera::quant
