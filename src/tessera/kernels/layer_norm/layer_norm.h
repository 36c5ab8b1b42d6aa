#pragma once
// LayerNorm over rows (Ba et al. 2016), forward and backward, with results that do not depend on the thread count.
//
//   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(var + eps), var biased
//   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * weight,  xhat = (x - mean) * rstd
//   dweight = sum_r dy * xhat,  dbias = sum_r dy   in blocks of 64 rows, blocks added in increasing order
//
// Canonical arithmetic, in f32 without FMA (sum16: element i goes to partial sum i % 16, then the upper half is added
// to the lower, 16 -> 8 -> 4 -> 2 -> 1; every sum starts at +0):
//   mean = sum16(x) / cols;  rstd = 1 / sqrt(sum16((x - mean)^2) / cols + eps);  xhat = (x - mean) * rstd
//   y = xhat * weight + bias;  dx = rstd * ((g - sum16(g) / cols) - xhat * (sum16(g * xhat) / cols))
// A null weight or bias leaves its operation out. A value that is not finite makes all of its row's y NaN.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct LayerNormParams {
  std::int64_t rows = 0, cols = 0;  ///< cols < 2^24
  const float* x = nullptr;         ///< [rows, cols], contiguous f32 (the residual stream)
  const float* weight = nullptr;    ///< [cols] or null: 1
  const float* bias = nullptr;      ///< [cols] or null: 0
  float eps = 1e-5f;
  MutableFloatRows y;     ///< [rows, cols]
  float* mean = nullptr;  ///< [rows], kept for backward
  float* rstd = nullptr;  ///< [rows]
};

/// Normalize all rows, in parallel over rows.
void layer_norm(const LayerNormParams& params, IsaSet isa = enabled_isa());

struct LayerNormBackwardParams {
  std::int64_t rows = 0, cols = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  FloatRows dy;              ///< [rows, cols]
  float* dx = nullptr;       ///< [rows, cols] f32, or null
  float* dweight = nullptr;  ///< [cols], overwritten, or null
  float* dbias = nullptr;    ///< [cols], overwritten, or null
};
inline constexpr std::int64_t kLayerNormBlockRows = 64;

/// Floats of scratch for the block sums: [blocks of 64 rows, 2, cols], dweight's before dbias's.
std::int64_t layer_norm_backward_workspace(std::int64_t rows, std::int64_t cols);

/// All gradients that are not null, in parallel over blocks of rows.
void layer_norm_backward(const LayerNormBackwardParams& params, float* workspace, IsaSet isa = enabled_isa());

/// Rows begin..end-1, and the dx and block sums of blocks begin..end-1, in plain C++: what every target must equal.
void layer_norm_reference(const LayerNormParams& params, std::int64_t begin, std::int64_t end);
void layer_norm_backward_reference(const LayerNormBackwardParams& params, float* workspace, std::int64_t begin,
                                   std::int64_t end);

}  // namespace tessera::kernels
