#pragma once
// What a weight becomes once per optimizer step: the codes that every product of the step multiplies.
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "tessera/quant/codes.h"

namespace tessera::quant {

/// Rotated INT4 codes of a weight [C, D], and the panels that forward and dX read. The same codes serve both.
struct Int4Weight {
  Int4Codes codes;        ///< packed codes, row scales, trust mask
  Panels forward_panels;  ///< contracts over D
  Panels dx_panels;       ///< contracts over C
};

/// Rotated 7-bit codes of a weight [C, D] as the panels that forward and dX read. The same codes serve both.
struct Int7Weight {
  std::int32_t block = 1;  ///< Hadamard block
  at::Tensor scales;       ///< [C] f32
  Panels forward_panels;   ///< contracts over D
  Panels dx_panels;        ///< contracts over C
};

/// INT8 codes of a weight: quantized over D for forward and over C for dX (spec 7.3).
struct Int8Weight {
  Panels forward_panels;
  at::Tensor forward_scales;  ///< [C] f32
  Panels dx_panels;
  at::Tensor dx_scales;  ///< [D] f32
};

/// `weight` [C, D] f32; `block` as hadamard_block_for returns it.
Int4Weight make_int4_weight(const at::Tensor& weight, std::int32_t block);
Int7Weight make_int7_weight(const at::Tensor& weight, std::int32_t block);
Int8Weight make_int8_weight(const at::Tensor& weight);

}  // namespace tessera::quant
