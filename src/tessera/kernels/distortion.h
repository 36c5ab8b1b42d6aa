#pragma once
// What quantization did to a set of values; one object for tests, benches and `tessera inspect`.
//
//   MSE = mean((x^ - x)^2),  SNR = 10 log10(sum x^2 / sum (x^ - x)^2) dB,  relative error = sqrt(sum e^2 / sum x^2)
#include <cstdint>
#include <span>

namespace tessera::kernels {

class DistortionStats {
 public:
  /// Add one value and what became of it; `clipped`: the quantizer cut it off (its trust bit is 0). A pair with NaN or
  /// Inf is only counted.
  void add(float original, float approximation, bool clipped = false);
  /// Add pairs; the spans have equal lengths.
  void add(std::span<const float> original, std::span<const float> approximation);
  /// Add what another object has seen.
  void merge(const DistortionStats& other);

  std::int64_t count() const { return count_; }  ///< finite pairs
  std::int64_t non_finite() const { return non_finite_; }
  std::int64_t exact() const { return exact_; }                      ///< x^ == x
  std::int64_t sign_flips() const { return sign_flips_; }            ///< both nonzero, signs differ
  std::int64_t rounded_to_zero() const { return rounded_to_zero_; }  ///< x^ == 0 although x is not
  double clipped_share() const;                                      ///< of the finite pairs; 0 if none
  double max_error() const { return max_error_; }
  double mean_error() const;  ///< signed: the bias
  double mean_squared_error() const;
  double relative_error() const;  ///< 0 if nothing was lost, Inf if x is all zero and x^ is not
  double snr_db() const;          ///< +Inf if nothing was lost, -Inf if x is all zero and x^ is not

 private:
  std::int64_t count_ = 0, non_finite_ = 0, exact_ = 0, sign_flips_ = 0, rounded_to_zero_ = 0, clipped_ = 0;
  double sum_error_ = 0, sum_squared_error_ = 0, sum_squares_ = 0, max_error_ = 0;
};

}  // namespace tessera::kernels
