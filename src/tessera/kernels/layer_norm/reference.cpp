// layer_norm as its header says it, element by element.
#include <cmath>

#include "tessera/kernels/layer_norm/layer_norm.h"

namespace tessera::kernels {
namespace {

template <typename Term>
float sum16(std::int64_t n, Term&& term) {
  float sums[16] = {};
  for (std::int64_t i = 0; i < n; ++i) sums[i % 16] += term(i);
  for (int half = 8; half != 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

float read(const FloatRows& rows, std::int64_t r, std::int64_t c) {
  const std::int64_t i = r * rows.stride + c;
  return rows.type == FloatType::kF32 ? static_cast<const float*>(rows.data)[i]
                                      : from_bf16(static_cast<const std::uint16_t*>(rows.data)[i]);
}

}  // namespace

void layer_norm_reference(const LayerNormParams& p, std::int64_t begin, std::int64_t end) {
  const auto n = static_cast<float>(p.cols);
  for (std::int64_t r = begin; r < end; ++r) {
    const float* x = p.x + r * p.cols;
    const float mean = sum16(p.cols, [&](std::int64_t c) { return x[c]; }) / n;
    const float square = sum16(p.cols, [&](std::int64_t c) { return (x[c] - mean) * (x[c] - mean); });
    const float rstd = 1.0f / std::sqrt(square / n + p.eps);
    p.mean[r] = mean;
    p.rstd[r] = rstd;
    for (std::int64_t c = 0; c < p.cols; ++c) {
      float y = (x[c] - mean) * rstd;
      if (p.weight) y *= p.weight[c];
      if (p.bias) y += p.bias[c];
      if (p.y.type == FloatType::kF32) {
        static_cast<float*>(p.y.data)[r * p.y.stride + c] = y;
      } else {
        static_cast<std::uint16_t*>(p.y.data)[r * p.y.stride + c] = to_bf16(y);
      }
    }
  }
}

void layer_norm_backward_reference(const LayerNormBackwardParams& p, float* workspace, std::int64_t begin,
                                   std::int64_t end) {
  const auto n = static_cast<float>(p.cols);
  for (std::int64_t block = begin; block < end; ++block) {
    float* dweight = workspace + block * 2 * p.cols;
    float* dbias = dweight + p.cols;
    for (std::int64_t c = 0; c < 2 * p.cols; ++c) dweight[c] = 0;
    for (std::int64_t r = block * kLayerNormBlockRows; r < p.rows && r < (block + 1) * kLayerNormBlockRows; ++r) {
      const float* x = p.x + r * p.cols;
      const float mean = p.mean[r], rstd = p.rstd[r];
      const auto xhat = [&](std::int64_t c) { return (x[c] - mean) * rstd; };
      const auto g = [&](std::int64_t c) { return p.weight ? read(p.dy, r, c) * p.weight[c] : read(p.dy, r, c); };
      const float mean_g = sum16(p.cols, g) / n;
      const float mean_gx = sum16(p.cols, [&](std::int64_t c) { return g(c) * xhat(c); }) / n;
      for (std::int64_t c = 0; c < p.cols; ++c) {
        dweight[c] += read(p.dy, r, c) * xhat(c);
        dbias[c] += read(p.dy, r, c);
        if (p.dx) p.dx[r * p.cols + c] = rstd * ((g(c) - mean_g) - xhat(c) * mean_gx);
      }
    }
  }
}

}  // namespace tessera::kernels
