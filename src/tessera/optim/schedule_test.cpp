#include "tessera/optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/check.h"

namespace tessera::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Values are computed in double and rounded once, so borders are exact.
constexpr double kPeak = 0x1p-8;

Schedule schedule(const char* name, std::int64_t warmup = 10, std::int64_t total = 110, double fraction = 0.25) {
  return Schedule({name, kPeak, warmup, total, fraction});
}

TEST(Schedule, WarmUpIsLinearAndEndsAtThePeak) {
  for (const char* name : {"constant", "linear", "cosine"}) {
    const Schedule s = schedule(name);
    EXPECT_EQ(s.lr_at(0), static_cast<float>(kPeak / 10)) << name;
    EXPECT_EQ(s.lr_at(4), static_cast<float>(kPeak / 2)) << name;
    EXPECT_EQ(s.lr_at(9), static_cast<float>(kPeak)) << name;
    EXPECT_EQ(s.lr_at(10), static_cast<float>(kPeak)) << name;
  }
}

TEST(Schedule, LinearMiddleAndEnd) {
  const Schedule s = schedule("linear");
  EXPECT_EQ(s.lr_at(60), static_cast<float>(kPeak * 0.625));
  EXPECT_FLOAT_EQ(s.lr_at(109), static_cast<float>(kPeak * (0.25 + 0.75 * 0.01)));
  EXPECT_EQ(s.lr_at(110), static_cast<float>(kPeak * 0.25));
  EXPECT_EQ(s.lr_at(std::numeric_limits<std::int64_t>::max()), static_cast<float>(kPeak * 0.25));
}

TEST(Schedule, CosineMiddleAndEnd) {
  const Schedule s = schedule("cosine");
  EXPECT_FLOAT_EQ(s.lr_at(60), static_cast<float>(kPeak * 0.625));
  EXPECT_FLOAT_EQ(s.lr_at(35), static_cast<float>(kPeak * (0.25 + 0.75 * (1 + std::sqrt(0.5)) / 2)));
  EXPECT_EQ(s.lr_at(110), static_cast<float>(kPeak * 0.25));
  EXPECT_EQ(s.lr_at(5000), static_cast<float>(kPeak * 0.25));
  for (std::int64_t step = 10; step < 110; ++step) EXPECT_LE(s.lr_at(step + 1), s.lr_at(step));
}

TEST(Schedule, ConstantStaysAtThePeak) {
  const Schedule s = schedule("constant");
  EXPECT_EQ(s.lr_at(109), static_cast<float>(kPeak));
  EXPECT_EQ(s.lr_at(5000), static_cast<float>(kPeak));
}

TEST(Schedule, NoWarmUpAndOnlyWarmUp) {
  EXPECT_EQ(schedule("cosine", 0, 100).lr_at(0), static_cast<float>(kPeak));
  EXPECT_EQ(schedule("linear", 5, 5).lr_at(4), static_cast<float>(kPeak));
  EXPECT_EQ(schedule("linear", 5, 5).lr_at(5), static_cast<float>(kPeak * 0.25));
  EXPECT_EQ(schedule("linear", 0, 0, 0).lr_at(0), 0.0f);
}

TEST(Schedule, NamesGoThereAndBack) {
  for (ScheduleShape shape : {ScheduleShape::kConstant, ScheduleShape::kLinear, ScheduleShape::kCosine})
    EXPECT_EQ(parse_schedule(schedule_name(shape)), shape);
}

TEST(Schedule, BadOptionsAreSentences) {
  EXPECT_THAT([] { schedule("cosin"); },
              ThrowsMessage<Error>(HasSubstr("unknown schedule 'cosin' (did you mean 'cosine'?)"
                                             "; known: constant, linear, cosine")));
  EXPECT_THAT([] { schedule("linear", 11, 10); }, ThrowsMessage<Error>(HasSubstr("11 warm-up steps")));
  EXPECT_THAT([] { schedule("linear", -1); }, ThrowsMessage<Error>(HasSubstr("-1 warm-up steps")));
  EXPECT_THAT([] { schedule("linear", 0, -2); }, ThrowsMessage<Error>(HasSubstr("-2 steps")));
  EXPECT_THAT([] { schedule("linear", 0, 1, 1.5); }, ThrowsMessage<Error>(HasSubstr("1.5 of the peak")));
  EXPECT_THAT([] { Schedule({"linear", -1.0, 0, 1, 0}); }, ThrowsMessage<Error>(HasSubstr("learning rate is -1")));
  EXPECT_THAT([] { (void)schedule("linear").lr_at(-1); }, ThrowsMessage<Error>(HasSubstr("no step -1")));
}

}  // namespace
}  // namespace tessera::optim
