#pragma once
// Codes back to floats: y[r,c] = float(code[r,c]) * scale[r], still in the domain the codes were made in.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct DequantizeParams {
  std::int64_t rows = 0, cols = 0;
  const std::uint8_t* int4_packed = nullptr;  ///< [rows, int4_bytes(cols)], or null: then codes
  const std::int8_t* codes = nullptr;         ///< [rows, code_stride]
  std::int64_t code_stride = 0;
  const float* scales = nullptr;  ///< [rows]
  MutableFloatRows y;             ///< [rows, cols]
};

/// Dequantize all rows, in parallel over rows.
void dequantize(const DequantizeParams& params, IsaSet isa = enabled_isa());

/// The same for rows begin..end-1 in plain C++: what every target must equal bit for bit.
void dequantize_reference(const DequantizeParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
