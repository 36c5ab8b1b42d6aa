#include "tessera/kernels/distortion.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::kernels {

void DistortionStats::add(float original, float approximation, bool clipped) {
  if (!std::isfinite(original) || !std::isfinite(approximation)) {
    ++non_finite_;
    return;
  }
  const double error = static_cast<double>(approximation) - original;
  ++count_;
  exact_ += error == 0;
  sign_flips_ += (original < 0 && approximation > 0) || (original > 0 && approximation < 0);
  rounded_to_zero_ += approximation == 0 && original != 0;
  clipped_ += clipped;
  sum_error_ += error;
  sum_squared_error_ += error * error;
  sum_squares_ += static_cast<double>(original) * original;
  max_error_ = std::max(max_error_, std::abs(error));
}

void DistortionStats::add(std::span<const float> original, std::span<const float> approximation) {
  for (std::size_t i = 0; i < original.size(); ++i) add(original[i], approximation[i]);
}

void DistortionStats::merge(const DistortionStats& other) {
  count_ += other.count_;
  non_finite_ += other.non_finite_;
  exact_ += other.exact_;
  sign_flips_ += other.sign_flips_;
  rounded_to_zero_ += other.rounded_to_zero_;
  clipped_ += other.clipped_;
  sum_error_ += other.sum_error_;
  sum_squared_error_ += other.sum_squared_error_;
  sum_squares_ += other.sum_squares_;
  max_error_ = std::max(max_error_, other.max_error_);
}

double DistortionStats::clipped_share() const {
  return count_ ? static_cast<double>(clipped_) / static_cast<double>(count_) : 0;
}

double DistortionStats::mean_error() const { return count_ ? sum_error_ / static_cast<double>(count_) : 0; }

double DistortionStats::mean_squared_error() const {
  return count_ ? sum_squared_error_ / static_cast<double>(count_) : 0;
}

double DistortionStats::relative_error() const {
  return sum_squared_error_ == 0 ? 0 : std::sqrt(sum_squared_error_ / sum_squares_);
}

double DistortionStats::snr_db() const {
  if (sum_squared_error_ == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(sum_squares_ / sum_squared_error_);
}

}  // namespace tessera::kernels
