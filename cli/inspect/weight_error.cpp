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

// `weight` in the rotated domain.
AlignedBuffer<float> rotated_weight(std::span<const float> weight, std::int64_t rows, std::int64_t cols,
                                    std::int32_t block) {
  AlignedBuffer<float> rotated(rows * cols);
  kernels::UnrotateParams rotate;  // the rotation is its own inverse
  rotate.rows = rows, rotate.cols = cols, rotate.block = block;
  rotate.t = {weight.data(), kernels::FloatType::kF32, cols};
  rotate.y = {rotated.data(), kernels::FloatType::kF32, cols};
  kernels::unrotate(rotate);
  return rotated;
}

kernels::DistortionStats int4_error(std::span<const float> weight, std::int64_t rows, std::int64_t cols,
                                    std::int32_t block) {
  const std::int64_t mask_bytes = div_ceil<std::int64_t>(cols, 8);
  AlignedBuffer<std::uint8_t> packed(rows * int4_bytes(cols)), mask(rows * mask_bytes);
  AlignedBuffer<float> scales(rows), approximation(rows * cols);

  kernels::RotateQuantizeParams quantize;
  quantize.rows = rows, quantize.cols = cols, quantize.block = block;
  quantize.x = {weight.data(), kernels::FloatType::kF32, cols};
  quantize.int4_packed = packed.data(), quantize.int4_scales = scales.data(), quantize.trust_mask = mask.data();
  kernels::rotate_quantize(quantize);

  kernels::DequantizeParams dequantize;
  dequantize.rows = rows, dequantize.cols = cols;
  dequantize.int4_packed = packed.data(), dequantize.scales = scales.data();
  dequantize.y = {approximation.data(), kernels::FloatType::kF32, cols};
  kernels::dequantize(dequantize);

  const AlignedBuffer<float> rotated = rotated_weight(weight, rows, cols, block);
  kernels::DistortionStats stats;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const bool trusted = (mask[r * mask_bytes + c / 8] >> (c % 8)) & 1;
      stats.add(rotated[r * cols + c], approximation[r * cols + c], !trusted);
    }
  return stats;
}

// Of codes up to `limit` on a scale of absmax / limit; block 1: not rotated.
kernels::DistortionStats absmax_error(std::span<const float> weight, std::int64_t rows, std::int64_t cols,
                                      std::int32_t block, std::int32_t limit) {
  AlignedBuffer<std::int8_t> codes(rows * cols);
  AlignedBuffer<float> scales(rows);
  kernels::RotateQuantizeParams quantize;
  quantize.rows = rows, quantize.cols = cols, quantize.block = block;
  quantize.x = {weight.data(), kernels::FloatType::kF32, cols};
  quantize.absmax_codes = codes.data(), quantize.absmax_scales = scales.data();
  quantize.absmax_limit = limit, quantize.code_stride = cols;
  kernels::rotate_quantize(quantize);

  const AlignedBuffer<float> rotated = rotated_weight(weight, rows, cols, block);
  kernels::DistortionStats stats;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = r * cols; i < (r + 1) * cols; ++i)
      stats.add(rotated[i], scales[r] * static_cast<float>(codes[i]));
  return stats;
}

}  // namespace

WeightError weight_error(std::span<const float> weight, std::int64_t rows, std::int64_t cols,
                         const quant::Recipe& recipe) {
  TESSERA_DCHECK(static_cast<std::int64_t>(weight.size()) == rows * cols);
  if (quant::is_rotated(recipe.forward)) {
    const std::int32_t block = quant::hadamard_block_for(cols, recipe.hadamard_block);
    if (recipe.forward == quant::Product::kInt7)
      return {fmt::format("int7, Hadamard {}", block), absmax_error(weight, rows, cols, block, kInt7Max)};
    return {fmt::format("int4, Hadamard {}", block), int4_error(weight, rows, cols, block)};
  }
  if (recipe.forward == quant::Product::kInt8) return {"int8", absmax_error(weight, rows, cols, /*block=*/1, kInt8Max)};
  WeightError error{std::string(quant::product_name(recipe.forward)), {}};
  const bool bf16 = recipe.forward == quant::Product::kBf16;
  for (const float value : weight) error.stats.add(value, bf16 ? kernels::from_bf16(kernels::to_bf16(value)) : value);
  return error;
}

}  // namespace tessera::cli
