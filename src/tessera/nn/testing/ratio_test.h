#pragma once
// The ratio test of an unbiased estimator (spec 9.1): over K draws and all elements,
//   R = sum (mean - exact)^2 / sum (var / K)
// is 1 within sampling error; a bias makes R grow with K. With at least 1e4 elements and K >= 64, R of an unbiased
// estimator has a standard deviation below sqrt(2 / elements) * (a few) << 0.1.
#include "tessera/quant/torch.h"

namespace tessera::nn::testing {

class RatioTest {
 public:
  void add(const torch::Tensor& draw) {
    const torch::Tensor d = draw.to(torch::kDouble);
    if (!sum_.defined()) {
      sum_ = torch::zeros_like(d);
      squares_ = torch::zeros_like(d);
    }
    sum_ += d;
    squares_ += d * d;
    ++draws_;
  }
  double ratio(const torch::Tensor& exact) const {
    return (sum_ / draws_ - exact.to(torch::kDouble)).square().sum().item<double>() / (variance() / draws_);
  }
  /// Of one draw, summed over the elements.
  double variance() const { return ((squares_ - sum_ * sum_ / draws_) / (draws_ - 1)).sum().item<double>(); }

 private:
  torch::Tensor sum_, squares_;
  int draws_ = 0;
};

}  // namespace tessera::nn::testing
