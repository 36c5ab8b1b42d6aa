#include "tessera/optim/grad_clip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/thread_backend.h"

namespace tessera::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Floats = std::vector<float>;

double sum_of(const std::vector<Floats>& gradients) {
  const std::vector<std::span<const float>> spans(gradients.begin(), gradients.end());
  return sum_of_squares(spans);
}

TEST(GradClip, NormIsThatOfAllGradientsTogether) {
  const Clip result = clip(sum_of({{3}, {}, {0, 4}, {12}}), 26);
  EXPECT_EQ(result.norm, 13);
  EXPECT_EQ(result.scale, 1.0f);
  EXPECT_TRUE(result.finite);
}

TEST(GradClip, ScaleBringsTheNormToTheLimit) {
  EXPECT_EQ(clip(169, 6.5).scale, 0.5f);
  EXPECT_EQ(clip(169, 13).scale, 1.0f);
  EXPECT_EQ(clip(169, std::numeric_limits<double>::infinity()).scale, 1.0f);
  EXPECT_EQ(clip(0, 1).scale, 1.0f);
  EXPECT_EQ(clip(0, 1).norm, 0);
}

TEST(GradClip, SumEqualsLongDouble) {
  const std::vector<Floats> gradients = {tessera::testing::normal_values(10007, 1),
                                         tessera::testing::normal_values(523, 2)};
  long double exact = 0;
  for (const Floats& gradient : gradients)
    for (float v : gradient) exact += static_cast<long double>(v) * static_cast<long double>(v);
  // Exact products; at most 256 + 4 + 3 + 2 additions on an element's way.
  EXPECT_NEAR(sum_of(gradients), static_cast<double>(exact), 265 * 0x1p-53 * static_cast<double>(exact));
}

TEST(GradClip, NotFiniteIsSaidAndScalesNothing) {
  for (float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const Clip result = clip(sum_of({{1, 2}, {3, bad}}), 1);
    EXPECT_FALSE(result.finite);
    EXPECT_FALSE(std::isfinite(result.norm));
    EXPECT_EQ(result.scale, 1.0f);
  }
}

TEST(GradClip, ThreadsDoNotMatter) {
  const std::vector<Floats> gradients = {tessera::testing::normal_values(20 * 4096 + 5, 3)};
  const double one = sum_of(gradients);
  tessera::testing::ThreadBackend backend(3);
  EXPECT_EQ(sum_of(gradients), one);
}

TEST(GradClip, BadLimitIsASentence) {
  EXPECT_THAT([] { (void)clip(1, 0); }, ThrowsMessage<Error>(HasSubstr("norm is 0")));
  EXPECT_THAT([] { (void)clip(1, std::numeric_limits<double>::quiet_NaN()); },
              ThrowsMessage<Error>(HasSubstr("norm is nan")));
}

}  // namespace
}  // namespace tessera::optim
