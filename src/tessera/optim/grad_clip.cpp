#include "tessera/optim/grad_clip.h"

#include <cmath>
#include <cstdint>

#include "tessera/base/check.h"
#include "tessera/kernels/adamw/adamw.h"

namespace tessera::optim {

double sum_of_squares(std::span<const std::span<const float>> gradients) {
  double sum = 0;
  for (const std::span<const float> gradient : gradients)
    sum += kernels::sum_of_squares(gradient.data(), static_cast<std::int64_t>(gradient.size()));
  return sum;
}

Clip clip(double sum_of_squares, double max_norm) {
  TESSERA_CHECK(max_norm > 0, "the largest gradient norm is {}, expected a number above 0", max_norm);
  Clip result;
  result.norm = std::sqrt(sum_of_squares);
  result.finite = std::isfinite(result.norm);
  if (result.finite && result.norm > max_norm) result.scale = static_cast<float>(max_norm / result.norm);
  return result;
}

}  // namespace tessera::optim
