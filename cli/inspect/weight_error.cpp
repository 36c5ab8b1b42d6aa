#include "inspect/weight_error.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/aligned_buffer.h"
#include "tessera/base/check.h"
#include "tessera/base/int4.h"
#include "tessera/base/math.h"
#include "tessera/kernels/dequantize/dequantize.h"
#include "tessera/kernels/rotate_quantize/rotate_quantize.h"
#include "tessera/kernels/types.h"
#include "tessera/kernels/unrotate/unrotate.h"

namespace tessera::cli {
namespace {

kernels::DistortionStats int4_error(std::span<const float> weight, std::int64_t rows, std::int64_t cols,
                                    std::int32_t block) {
  const std::int64_t mask_bytes = div_ceil<std::int64_t>(cols, 8);
  AlignedBuffer<std::uint8_t> packed(rows * int4_bytes(cols)), mask(rows * mask_bytes);
  AlignedBuffer<float> scales(rows), rotated(rows * cols), approximation(rows * cols);

  kernels::RotateQuantizeParams quantize;
  quantize.rows = rows, quantize.cols = cols, quantize.block = block;
  quantize.x = {weight.data(), kernels::FloatType::kF32, cols};
  quantize.int4_packed = packed.data(), quantize.int4_scales = scales.data(), quantize.trust_mask = mask.data();
  kernels::rotate_quantize(quantize);

  kernels::UnrotateParams rotate;  // the rotation is its own inverse
  rotate.rows = rows, rotate.cols = cols, rotate.block = block;
  rotate.t = {weight.data(), kernels::FloatType::kF32, cols};
  rotate.y = {rotated.data(), kernels::FloatType::kF32, cols};
  kernels::unrotate(rotate);

  kernels::DequantizeParams dequantize;
  dequantize.rows = rows, dequantize.cols = cols;
  dequantize.int4_packed = packed.data(), dequantize.scales = scales.data();
  dequantize.y = {approximation.data(), kernels::FloatType::kF32, cols};
  kernels::dequantize(dequantize);

  kernels::DistortionStats stats;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const bool trusted = (mask[r * mask_bytes + c / 8] >> (c % 8)) & 1;
      stats.add(rotated[r * cols + c], approximation[r * cols + c], !trusted);
    }
  return stats;
}

kernels::DistortionStats int8_error(std::span<const float> weight, std::int64_t rows, std::int64_t cols) {
  AlignedBuffer<std::int8_t> codes(rows * cols);
  AlignedBuffer<float> scales(rows);
  kernels::RotateQuantizeParams quantize;
  quantize.rows = rows, quantize.cols = cols, quantize.block = 1;
  quantize.x = {weight.data(), kernels::FloatType::kF32, cols};
  quantize.absmax_codes = codes.data(), quantize.absmax_scales = scales.data();
  quantize.absmax_limit = 127, quantize.code_stride = cols;
  kernels::rotate_quantize(quantize);

  kernels::DistortionStats stats;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = r * cols; i < (r + 1) * cols; ++i)
      stats.add(weight[i], scales[r] * static_cast<float>(codes[i]));
  return stats;
}

}  // namespace

WeightError weight_error(std::span<const float> weight, std::int64_t rows, std::int64_t cols,
                         const quant::Recipe& recipe) {
  TESSERA_DCHECK(static_cast<std::int64_t>(weight.size()) == rows * cols);
  if (quant::uses_int4(recipe.forward)) {
    const std::int32_t block = quant::hadamard_block_for(cols, recipe.hadamard_block);
    return {fmt::format("int4, Hadamard {}", block), int4_error(weight, rows, cols, block)};
  }
  if (recipe.forward == quant::Product::kInt8) return {"int8", int8_error(weight, rows, cols)};
  WeightError error{std::string(quant::product_name(recipe.forward)), {}};
  const bool bf16 = recipe.forward == quant::Product::kBf16;
  for (const float value : weight) error.stats.add(value, bf16 ? kernels::from_bf16(kernels::to_bf16(value)) : value);
  return error;
}

}  // namespace tessera::cli
