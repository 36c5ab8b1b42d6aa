#pragma once
// Rows to codes: block Hadamard rotation, one scale per row, round to nearest even, pack.
//
//   t[r,:]  = (f(x[r,:]) H) with H = blockdiag(Hadamard(block)) / sqrt(block)
//   rms4:     s = kRms7 * sqrt(mean(t^2)),  code = clamp(RNE(t / s), -7, 7),  trust bit = |t / s| <= 7.5
//   given:    as rms4 with a scale s that the caller gives for all rows, and trust bit = |t / s| <= trust_edge
//   absmax:   a = max|t| / qmax,            code = RNE(t / a) in -qmax..qmax
//
// Both may be asked for in one pass over the same rotated row (recipe w4a8 keeps the rms4 codes of the row whose
// bit-split codes it multiplies). Method: QuEST's RMS-Gaussian scale (arXiv 2502.05003) on the symmetric +-7 grid.
//
// f is the identity, LayerNorm (layer_norm.h) or GELU (gelu.h), in f32: what precedes a linear layer costs no pass of
// its own over memory.
//
// Canonical arithmetic, so that every ISA and thread count gives equal bits: butterflies in increasing stride without
// FMA, then one multiplication by float(1/sqrt(block)); t^2 summed in 16 interleaved partial sums (element i goes to
// sum i % 16, in increasing i), folded 16 -> 8 -> 4 -> 2 -> 1 by adding the upper half to the lower; mean = sum / cols;
// inverse = 1 / s by IEEE division; v = t * inverse.
// A row of zeros has scale 0, codes 0 and trust bits 1; so has a row so small that 1 / s is not finite. A row whose t
// or s is not finite (NaN or Inf in x, or overflow) has scale NaN, codes 0 and trust bits 0.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/layer_norm/layer_norm.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

/// Scale of the +-7 grid that minimizes the squared error on N(0,1): s = kRms7 * RMS.
inline constexpr float kRms7 = 0.3534113f;

/// f of a row before its rotation; all but kNone need rows whose length is a multiple of 16.
enum class RowMap { kNone, kLayerNorm, kGelu };

struct RotateQuantizeParams {
  std::int64_t rows = 0, cols = 0;
  std::int32_t block = 1;  ///< power of two in 16..256 that divides cols, or 1: no rotation
  FloatRows x;             ///< [rows, cols]

  RowMap map = RowMap::kNone;
  LayerNormParams layer_norm;  ///< of kLayerNorm: weight, bias, eps, mean and rstd; x must be f32

  // rms4 outputs; any pointer may be null.
  std::uint8_t* int4_packed = nullptr;  ///< [rows, int4_bytes(cols)], low nibble first
  std::int8_t* int4_codes = nullptr;    ///< [rows, code_stride], the same codes one per byte
  float* int4_scales = nullptr;         ///< [rows]
  float int4_scale = 0;                 ///< s of all rows, or 0: each row's RMS
  float trust_edge = 7.5f;
  std::uint8_t* trust_mask = nullptr;   ///< [rows, ceil(cols / 8)], bit i % 8 of byte i / 8; unused bits 0

  // absmax outputs; both or none.
  std::int8_t* absmax_codes = nullptr;  ///< [rows, code_stride]
  float* absmax_scales = nullptr;       ///< [rows]
  std::int32_t absmax_limit = 98;       ///< 98 (bit split), 63 or 127

  // Statistics of the rotated rows, for scales that a whole matrix shares; any pointer may be null.
  float* abs_sums = nullptr;     ///< [rows], sum |t|, in the order of the sum of squares
  float* square_sums = nullptr;  ///< [rows], sum t^2

  /// Bytes between rows of one-per-byte codes, >= cols; bytes cols..code_stride-1 are written as zero.
  std::int64_t code_stride = 0;
};

/// Quantize all rows, in parallel over rows.
void rotate_quantize(const RotateQuantizeParams& params, IsaSet isa = enabled_isa());

/// The same for rows begin..end-1 in plain C++: what every target must equal bit for bit.
void rotate_quantize_reference(const RotateQuantizeParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
