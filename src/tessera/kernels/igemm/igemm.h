#pragma once
// Integer matrix product with fused epilogue: the heart of every quantized product.
//
//   acc[m,n] = sum_k a[m,k] * b[n,k]                      exact, INT32
//   out[m,n] = (float(acc) * row_scale[m]) * col_scale[n] + bias[n]      in fp32, then stored as f32 or bf16 (RNE)
//
// Codes up to +-127 on both sides; INT32 does not overflow for k <= 133,144 at +-127 (3,130,442 for 98 x 7).
// Both operands contract along their rows ("NT" form). The right operand is packed once into panels and reused.
#include <cstdint>
#include <span>
#include <string_view>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

inline constexpr std::int64_t kIgemmPanel = 16;  ///< columns of a panel of the right operand
inline constexpr std::int64_t kIgemmDepth = 64;  ///< the contraction is padded with zero codes to a multiple of this

/// Contraction length after padding.
std::int64_t igemm_padded_k(std::int64_t k);

/// Bytes between rows of a left operand: padded k, plus what keeps successive rows out of the same cache sets.
std::int64_t igemm_a_stride(std::int64_t k);

/// Right operand as panels. Layout: panel p holds columns 16p..16p+15 as [padded_k / 4][16][4] codes (column j, four
/// consecutive k), which is one AMX tile per 64 k and one vpdpbusd operand per 4 k. Columns past n and k are zero
/// codes.
struct PackedB {
  std::int8_t* panels = nullptr;  ///< igemm_packed_b_bytes(n, k), 64-byte aligned
  std::int64_t n = 0, k = 0;
  std::int32_t limit = 127;  ///< largest magnitude of a code; narrow codes may be multiplied faster
};
std::int64_t igemm_packed_b_bytes(std::int64_t n, std::int64_t k);

/// Where the codes of a right operand come from. `transposed` false: source is [n, k] (contraction along its rows, as
/// weights in forward). True: source is [k, n] (weights in dX, activations in dW).
struct PackSource {
  const std::uint8_t* int4_packed = nullptr;  ///< rows of packed INT4, or null: then codes
  const std::int8_t* codes = nullptr;         ///< rows of one code per byte
  std::int64_t row_bytes = 0;                 ///< bytes between source rows
  bool transposed = false;
};

/// Fill `b.panels` from `source`, in parallel.
void igemm_pack_b(const PackSource& source, const PackedB& b, IsaSet isa = enabled_isa());

struct IgemmParams {
  std::int64_t m = 0;
  const std::int8_t* a = nullptr;  ///< [m, a_stride] codes; columns k..padded_k-1 must be zero
  std::int64_t a_stride = 0;       ///< bytes, >= igemm_padded_k(k), multiple of 64; base 64-byte aligned. Best:
                                   ///< igemm_a_stride(k)
  std::int32_t a_limit = 127;      ///< largest magnitude of a code of `a`
  PackedB b;

  std::int32_t* acc_out = nullptr;   ///< if set: write raw INT32 [m, out_stride] and nothing else
  MutableFloatRows out;              ///< [m, n]; large outputs are fastest with 64-byte aligned base and rows
  const float* row_scale = nullptr;  ///< [m] or null: 1
  const float* col_scale = nullptr;  ///< [n] or null: 1
  const float* bias = nullptr;       ///< [n] or null
  bool accumulate = false;           ///< add to `out` (f32 only) instead of overwriting it
};

/// A micro-kernel: a row of the table in kernels.inc.
struct IgemmKernel {
  std::string_view name;  ///< e.g. "igemm_32x32_amx", "igemm_12x32_avx512_vnni", "igemm_reference"
  IsaLevel level;
  bool narrow;  ///< takes only codes with |a| + |b| <= 127
  void (*run)(const IgemmParams&);
  bool takes(std::int32_t a_limit, std::int32_t b_limit) const { return !narrow || a_limit + b_limit <= 127; }
};

/// The whole table, best first, the reference last.
std::span<const IgemmKernel> igemm_kernels();

/// The best kernel for `isa` and codes up to these magnitudes; never fails: the reference accepts everything. A kernel
/// for narrow codes competes with the general one of its level: a short measurement at the first call finds which is
/// faster on this CPU. $TESSERA_IGEMM_KERNEL names a kernel that serves wherever it can; throws Error when there is
/// none of that name or the CPU lacks its level.
const IgemmKernel& select_igemm(IsaSet isa = enabled_isa(), std::int32_t a_limit = 127, std::int32_t b_limit = 127);

/// Multiply, in parallel. Results are the same bits for every kernel, ISA and thread count.
void igemm(const IgemmParams& params, IsaSet isa = enabled_isa());

}  // namespace tessera::kernels
