#pragma once
// What a generated micro-kernel is told, and what decides its code. No code generator here: the driver includes it.
//
// A micro-kernel computes one block of at most kBlockColumns columns (two panels) and `rows` rows:
//
//   acc[r][c] (+)= sum over steps * 64 codes of a[r][k] * b[k][c]            INT32, kept in a scratch block
//
// and meanwhile finishes another block whose sums are complete: scale, bias, store. A finish never reads the sums of
// the same call, so that its instructions can run beside the products.
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/isa.h"

namespace tessera::kernels::jit {

inline constexpr int kBlockColumns = 32;  ///< columns of a scratch block, whatever the kernel fills

/// out[r][c] = (float(acc[r][c]) * row_scale[r]) * col_scale[c] + bias[c] for `rows` rows; 0: nothing to finish.
struct FinishArgs {
  const std::int32_t* acc;  ///< [rows][kBlockColumns], 64-byte aligned
  void* out;                ///< first element of the block
  std::int64_t out_stride;  ///< bytes
  const float* row_scale;   ///< [rows]
  const float* col_scale;   ///< [16 * panels], readable also where columns are masked off
  const float* bias;        ///< the same; -0.0 where there is none (x + -0.0 is x for every x)
  std::int64_t rows;
  std::uint64_t columns;  ///< bit c: column c is stored; read by masked kernels only
};

struct BlockArgs {
  const std::int8_t* a;          ///< [rows, a_stride]
  std::int64_t a_stride;         ///< bytes
  const std::int8_t* b;          ///< first panel at this depth
  std::int64_t panel_bytes;      ///< from a panel to the next
  std::int64_t steps;            ///< of 64 codes; may be 0
  std::int32_t* acc;             ///< [rows][kBlockColumns], 64-byte aligned
  const std::int32_t* row_init;  ///< VNNI: what the sums start from, per row
  const std::int32_t* col_init;  ///< mixed: what this depth adds to the sums, per column [kBlockColumns]
  std::uint64_t load_acc;        ///< not 0: go on from `acc` instead
  FinishArgs finish;
};

struct RowSumArgs {
  const std::int8_t* a;   ///< [rows, a_stride]
  std::int64_t a_stride;  ///< bytes
  std::int64_t steps;     ///< of 64 codes
  std::int64_t rows;
  std::int32_t* out;  ///< [rows]
};

/// One panel at one depth, as the mixed kernel reads it.
struct MixPanelArgs {
  const std::int8_t* from;
  std::int8_t* to;
  std::int64_t steps;      ///< of 64 codes
  std::int32_t* col_init;  ///< [16]
};

using RowSumFn = void (*)(const RowSumArgs*);
using MixPanelFn = void (*)(const MixPanelArgs*);
using BlockFn = void (*)(const BlockArgs*);

/// kInt32: sums as they are.
enum class OutKind : std::uint8_t { kInt32, kF32, kF32Add, kBf16 };

/// How AVX2 kernels, whose products of four codes are added in 16 bits, multiply codes of limited magnitude.
struct Avx2Form {
  std::uint8_t b_offset = 0;     ///< what makes b unsigned; 0: signed form
  std::uint8_t widen_every = 1;  ///< products of four codes until their sum is widened: 1, 2, 4, 8 or 16
  std::uint8_t rows = 6;         ///< of a full block
};

/// The fastest exact form for codes up to +-a_limit and +-b_limit, at most 127.
Avx2Form avx2_form(int a_limit, int b_limit);

/// Everything that makes two generated kernels differ.
struct BlockKey {
  IsaLevel isa = IsaLevel::kAvx512Vnni;
  std::uint8_t rows = 0;    ///< rows that are multiplied
  std::uint8_t panels = 0;  ///< 1 or 2
  OutKind out = OutKind::kF32;
  bool masked = false;       ///< store by FinishArgs::columns
  bool stream = false;       ///< non-temporal stores: two whole panels, rows of 64-byte aligned output
  bool unsigned_b = false;   ///< panels hold code + 128 (AVX2: code + b_offset) as unsigned bytes
  bool mixed = false;        ///< VNNI: inner-product and plain steps in turn, panels from MixPanelFn
  bool bf16 = false;         ///< words are pairs of bf16 numbers, sums f32 (bgemm); AVX-512 and AMX
  bool native_bf16 = false;  ///< vcvtne2ps2bf16 instead of integer rounding; same bits
  std::uint8_t b_offset = 0, widen_every = 1;  ///< AVX2: from Avx2Form
  auto operator<=>(const BlockKey&) const = default;
};

/// Name of the generated kernel, e.g. "igemm_12x32_avx512_vnni_bf16_masked".
std::string block_name(const BlockKey& key);

}  // namespace tessera::kernels::jit
