#pragma once
// bf16 matrix product on igemm's driver and packing, for the output head and kept layers: weights are packed once,
// nothing is planned per call, and results do not depend on the number of threads, which libraries do not promise.
//
//   out[m,n] (+)= sum_k a[m,k] * b[n,k] + bias[n]        products exact, sums f32 in increasing pairs of k
//
// By vdpbf16ps (two products and both additions rounded to nearest even, denormals as zero) or AMX tdpbf16ps; the bits
// depend on which. Both operands contract along their rows.
#include <cstdint>

#include "tessera/kernels/igemm/igemm.h"

namespace tessera::kernels {

/// Numbers of a left operand's row: k padded with zeros to a multiple of this.
inline constexpr std::int64_t kBgemmDepth = 32;

/// Whether this CPU and `isa` have bf16 products; without them a library has to serve.
bool bgemm_available(IsaSet isa = enabled_isa());

/// Bytes of panels for a right operand [n, k].
std::int64_t bgemm_packed_b_bytes(std::int64_t n, std::int64_t k);

/// Pack bf16 rows, `stride` numbers apart: [n, k], or with `transposed` [k, n]. In parallel.
void bgemm_pack_b(const std::uint16_t* source, std::int64_t stride, bool transposed, std::int64_t n, std::int64_t k,
                  std::int8_t* panels, IsaSet isa = enabled_isa());

struct BgemmParams {
  std::int64_t m = 0, n = 0, k = 0;
  const std::uint16_t* a = nullptr;  ///< [m, a_stride] bf16; columns k up to a multiple of 32 are zero; 64-byte aligned
  std::int64_t a_stride = 0;         ///< numbers, a multiple of 32
  const std::int8_t* panels = nullptr;
  MutableFloatRows out;         ///< [m, n]
  const float* bias = nullptr;  ///< [n] or null
  bool accumulate = false;      ///< add to `out`, f32
};

/// Multiply, in parallel. Throws Error when !bgemm_available(isa).
void bgemm(const BgemmParams& params, IsaSet isa = enabled_isa());

/// Rows of f32 or bf16 as left operands of bgemm.
struct Bf16RowsParams {
  std::int64_t rows = 0, cols = 0;
  FloatRows x;                          ///< [rows, cols]
  std::uint16_t* as_rows = nullptr;     ///< [rows, row_stride], zero from `cols` on, or null
  std::int64_t row_stride = 0;          ///< a multiple of 32, at least cols
  std::uint16_t* as_columns = nullptr;  ///< transposed: [cols, column_stride], zero from `rows` on, or null
  std::int64_t column_stride = 0;       ///< a multiple of 32, at least rows
};

/// Round to nearest even, both ways in one pass over x. In parallel.
void bf16_rows(const Bf16RowsParams& params, IsaSet isa = enabled_isa());
void bf16_rows_reference(const Bf16RowsParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
