#pragma once
// What the passes of fold_quantize share: the caller's scratch, cut into parts, and the passes of one target.
#include <cstddef>
#include <cstdint>

#include "tessera/kernels/fold_quantize/fold_quantize.h"

namespace tessera::kernels {

inline constexpr std::size_t kFoldBlock = 64;  ///< rows of a block and columns of a strip; fixes the order of sums

/// Parts of the scratch; null where the outputs asked for do not need one. Maxima are magnitudes as their bits.
struct FoldWorkspace {
  std::size_t blocks = 0, padded_cols = 0;  ///< blocks of rows; columns rounded up to whole strips
  std::int32_t* column_max = nullptr;       ///< [blocks, padded_cols]
  float* column_sum = nullptr;              ///< [blocks, padded_cols]
  float* column_inverse = nullptr;          ///< [padded_cols], 1 / scale, or 0: all codes are 0
  float* row_inverse = nullptr;             ///< [rows], the same
  std::size_t bytes = 0;
};

using FoldStep = void (*)(const FoldQuantizeParams&, const FoldWorkspace&, std::size_t begin, std::size_t end);

struct FoldSteps {
  FoldStep measure_blocks;   ///< over blocks of rows
  FoldStep combine_columns;  ///< over columns, in whole strips
  FoldStep quantize_tiles;   ///< over blocks x strips
};

}  // namespace tessera::kernels
