#pragma once
// What a recipe's weight format does to a weight matrix: the error `tessera inspect` prints per layer.
#include <cstdint>
#include <span>
#include <string>

#include "tessera/kernels/distortion.h"
#include "tessera/quant/recipe.h"

namespace tessera::cli {

struct WeightError {
  std::string format;              ///< "int4, Hadamard 128", "int7, Hadamard 128", "int8", "bf16", "fp32"
  kernels::DistortionStats stats;  ///< of the rotated weight where it is, with the same error; INT4 clips by trust mask
};

/// Quantize `weight` [rows, cols] as the forward product of `recipe` does and compare. Throws Error when the recipe
/// cannot serve the width.
WeightError weight_error(std::span<const float> weight, std::int64_t rows, std::int64_t cols,
                         const quant::Recipe& recipe);

}  // namespace tessera::cli
