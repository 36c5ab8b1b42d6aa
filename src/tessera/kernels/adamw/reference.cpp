// AdamW and the sum of squares as their header says them, element by element.
#include <cmath>

#include "tessera/kernels/adamw/adamw.h"

namespace tessera::kernels {
namespace {

float flush(float value) { return std::abs(value) < 0x1p-126f ? 0.0f : value; }

}  // namespace

void adamw_reference(const AdamWParams& a, std::int64_t begin, std::int64_t end) {
  const double beta1 = a.beta1, beta2 = a.beta2, lr = a.lr, t = static_cast<double>(a.t);
  const auto c1 = static_cast<float>(1 - beta1), c2 = static_cast<float>(1 - beta2);
  const auto decay = static_cast<float>(lr * static_cast<double>(a.weight_decay));
  const auto step = static_cast<float>(lr / (1 - std::pow(beta1, t)));
  const auto root = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t)));
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = a.gradient[i] * a.grad_scale;
    const float m = flush(a.m[i] + c1 * (g - a.m[i]));
    const float v = flush(a.beta2 * a.v[i] + c2 * (g * g));
    float p = a.parameter[i];
    if (decay != 0) p = p - decay * p;
    p = p - (step * m) / (std::sqrt(v) * root + a.eps);
    a.m[i] = m;
    a.v[i] = v;
    a.parameter[i] = p;
  }
}

double sum_of_squares_reference(const float* x, std::int64_t n) {
  double sums[16] = {};
  for (std::int64_t i = 0; i < n; ++i) sums[i % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  for (int half = 8; half != 0; half /= 2)
    for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
  return sums[0];
}

}  // namespace tessera::kernels
