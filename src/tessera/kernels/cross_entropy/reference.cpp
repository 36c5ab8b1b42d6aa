// cross_entropy as its header says it, element by element.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/kernels/cross_entropy/cross_entropy.h"
#include "tessera/kernels/exp.h"

namespace tessera::kernels {
namespace {

float sum16(const float* x, std::int64_t n, float max) {
  float sums[16] = {};
  for (std::int64_t i = 0; i < n; ++i) sums[i % 16] += exp_reference(x[i] - max);
  for (int half = 8; half != 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

}  // namespace

void softmax_exp_reference(const float* a, float* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp_reference(a[i]);
}

void cross_entropy_reference(const CrossEntropyParams& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    float* x = p.logits + r * p.stride;
    const std::int64_t target = p.targets[r];
    if (target == kIgnoreTarget) {
      p.loss[r] = 0;
      if (p.gradient) std::fill_n(x, p.cols, 0.0f);
      continue;
    }
    float max = -std::numeric_limits<float>::infinity();
    for (std::int64_t c = 0; c < p.cols; ++c) max = std::max(max, x[c]);
    const float sum = sum16(x, p.cols, max);
    p.loss[r] = static_cast<float>(std::log(static_cast<double>(sum)) +
                                   (static_cast<double>(max) - static_cast<double>(x[target])));
    if (!p.gradient) continue;
    const float inverse = 1.0f / sum, factor = inverse * p.gradient_scale;
    for (std::int64_t c = 0; c < p.cols; ++c) {
      const float e = exp_reference(x[c] - max);
      x[c] = c == target ? (e * inverse - 1.0f) * p.gradient_scale : e * factor;
    }
  }
}

}  // namespace tessera::kernels
