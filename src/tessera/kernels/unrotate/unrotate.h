#pragma once
// Out of the rotated domain: y[r,:] = ((mask[r,:] * t[r,:]) H), H as in rotate_quantize (its own inverse), and from
// there, when asked, through the derivative of GELU.
// The mask is applied before the rotation; the other order is another function (spec test T8).
// Canonical arithmetic: masked values become +0, butterflies in increasing stride without FMA, one multiplication by
// float(1/sqrt(block)), then that of gelu.h, all in f32.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct UnrotateParams {
  std::int64_t rows = 0, cols = 0;
  std::int32_t block = 1;              ///< as in rotate_quantize; 1: no rotation
  FloatRows t;                         ///< [rows, cols], rotated
  const std::uint8_t* mask = nullptr;  ///< [rows, ceil(cols / 8)] trust bits, or null: all 1
  MutableFloatRows y;                  ///< [rows, cols]; may be t itself when both are f32 or both bf16
  const void* gelu_x = nullptr;        ///< input of the GELU to differentiate: type and stride of y; null: none
};

/// Unrotate all rows, in parallel over rows.
void unrotate(const UnrotateParams& params, IsaSet isa = enabled_isa());

/// The same for rows begin..end-1 in plain C++: what every target must equal bit for bit.
void unrotate_reference(const UnrotateParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
