#pragma once
// LayerNorm over rows (Ba et al. 2016), forward and backward, with results that do not depend on the thread count.
//
//   y = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(var + eps), var biased
//   dx = rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * weight,  xhat = (x - mean) * rstd
//   dweight = sum_r dy * xhat,  dbias = sum_r dy   in blocks of 64 rows, blocks added in increasing order
// Row sums use 16 interleaved partial sums and the fixed tree of rotate_quantize.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct LayerNormParams {
  std::int64_t rows = 0, cols = 0;
  const float* x = nullptr;       ///< [rows, cols], contiguous f32 (the residual stream)
  const float* weight = nullptr;  ///< [cols] or null: 1
  const float* bias = nullptr;    ///< [cols] or null: 0
  float eps = 1e-5f;
  MutableFloatRows y;        ///< [rows, cols]
  float* mean = nullptr;     ///< [rows], kept for backward
  float* rstd = nullptr;     ///< [rows]
};
void layer_norm(const LayerNormParams& params, IsaSet isa = enabled_isa());

struct LayerNormBackwardParams {
  std::int64_t rows = 0, cols = 0;
  const float* x = nullptr;
  const float* weight = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
  FloatRows dy;               ///< [rows, cols]
  float* dx = nullptr;        ///< [rows, cols] f32, or null
  float* dweight = nullptr;   ///< [cols], overwritten, or null
  float* dbias = nullptr;     ///< [cols], overwritten, or null
};
/// Floats of scratch for the block sums.
std::int64_t layer_norm_backward_workspace(std::int64_t rows, std::int64_t cols);
void layer_norm_backward(const LayerNormBackwardParams& params, float* workspace, IsaSet isa = enabled_isa());

}  // namespace tessera::kernels
