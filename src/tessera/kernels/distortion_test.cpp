#include "tessera/kernels/distortion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tessera::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(DistortionStats, CountsWhatHappened) {
  DistortionStats stats;
  stats.add(1.0f, 1.0f);
  stats.add(-1.0f, 1.0f);
  stats.add(0.5f, 0.0f);
  stats.add(0.0f, 0.0f);
  stats.add(3.0f, 2.0f, /*clipped=*/true);
  EXPECT_EQ(stats.count(), 5);
  EXPECT_EQ(stats.exact(), 2);
  EXPECT_EQ(stats.sign_flips(), 1);
  EXPECT_EQ(stats.rounded_to_zero(), 1);
  EXPECT_DOUBLE_EQ(stats.clipped_share(), 0.2);
  EXPECT_DOUBLE_EQ(stats.max_error(), 2.0);
  EXPECT_DOUBLE_EQ(stats.mean_error(), (2.0 - 0.5 - 1.0) / 5);
  EXPECT_DOUBLE_EQ(stats.mean_squared_error(), (4.0 + 0.25 + 1.0) / 5);
  EXPECT_DOUBLE_EQ(stats.relative_error(), std::sqrt(5.25 / 11.25));
  EXPECT_DOUBLE_EQ(stats.snr_db(), 10 * std::log10(11.25 / 5.25));
}

TEST(DistortionStats, NothingSeenAndNothingLost) {
  DistortionStats stats;
  EXPECT_EQ(stats.mean_squared_error(), 0);
  EXPECT_EQ(stats.clipped_share(), 0);
  stats.add(2.0f, 2.0f);
  EXPECT_EQ(stats.relative_error(), 0);
  EXPECT_EQ(stats.snr_db(), kInf);
}

TEST(DistortionStats, ZerosThatBecameSomething) {
  DistortionStats stats;
  stats.add(0.0f, 1.0f);
  EXPECT_EQ(stats.relative_error(), kInf);
  EXPECT_EQ(stats.snr_db(), -kInf);
}

TEST(DistortionStats, NonFinitePairsAreOnlyCounted) {
  DistortionStats stats;
  stats.add(kInf, 1.0f);
  stats.add(1.0f, std::nanf(""));
  EXPECT_EQ(stats.non_finite(), 2);
  EXPECT_EQ(stats.count(), 0);
  EXPECT_EQ(stats.mean_squared_error(), 0);
}

TEST(DistortionStats, MergeEqualsOneObject) {
  const std::vector<float> x = {1, -2, 3, 0.25f}, y = {1.5f, -2, 2, 0};
  DistortionStats whole, left, right;
  whole.add(x, y);
  left.add(std::span(x).first(2), std::span(y).first(2));
  right.add(std::span(x).last(2), std::span(y).last(2));
  left.merge(right);
  EXPECT_EQ(left.count(), whole.count());
  EXPECT_EQ(left.rounded_to_zero(), whole.rounded_to_zero());
  EXPECT_EQ(left.exact(), whole.exact());
  EXPECT_DOUBLE_EQ(left.mean_squared_error(), whole.mean_squared_error());
  EXPECT_DOUBLE_EQ(left.max_error(), whole.max_error());
}

}  // namespace
}  // namespace tessera::kernels
