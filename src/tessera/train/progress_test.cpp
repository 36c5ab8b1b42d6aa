#include "tessera/train/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/file.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Columns of UTF-8 text whose characters are one column each.
int columns(const std::string& text) {
  int count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

ProgressView view() {
  return {.step = 120, .steps = 1000, .loss = 2.41349, .tokens_per_s = 18240, .val_loss = 2.52, .seconds_left = 62};
}

TEST(Progress, FormatsRatesAndDurations) {
  EXPECT_EQ(format_rate(0), "0");
  EXPECT_EQ(format_rate(999.4), "999");
  EXPECT_EQ(format_rate(999.6), "1.0k");
  EXPECT_EQ(format_rate(18240), "18.2k");
  EXPECT_EQ(format_rate(999949), "999.9k");
  EXPECT_EQ(format_rate(1234567), "1.23M");
  EXPECT_EQ(format_duration(0.4), "0s");
  EXPECT_EQ(format_duration(-3), "0s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(62), "1m02s");
  EXPECT_EQ(format_duration(3 * 3600 + 5 * 60), "3h05m");
}

TEST(Progress, LineShowsAllWhereThereIsRoom) {
  EXPECT_EQ(progress_line(view(), 100),
            "step 120/1000 [████░░░░░░░░░░░░░░░░░░░░░░░░░░]  loss 2.4135  18.2k tok/s  1m02s left  val 2.5200");
}

TEST(Progress, LineNeverExceedsTheWidth) {
  for (int width = 13; width <= 120; ++width) EXPECT_LE(columns(progress_line(view(), width)), width) << width;
  EXPECT_THAT(progress_line(view(), 60), Not(HasSubstr("█")));  // numbers before the bar
  EXPECT_EQ(progress_line(view(), 30), "step 120/1000  loss 2.4135");
}

TEST(Progress, BarIsEmptyAtTheStartAndFullAtTheEnd) {
  ProgressView at = view();
  at.step = 0;
  EXPECT_THAT(progress_line(at, 100), Not(HasSubstr("█")));
  at.step = at.steps;
  EXPECT_THAT(progress_line(at, 100), Not(HasSubstr("░")));
}

TEST(Progress, PlainLinesEveryFewStepsAndAtTheEnd) {
  const tessera::testing::TemporaryDirectory directory;
  const std::filesystem::path path = directory / "out";
  std::FILE* file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  {
    Progress progress(file, 0, 7, 3);
    for (std::int64_t step = 1; step <= 7; ++step) {
      StepMetrics metrics;
      metrics.step = step;
      metrics.loss = 1.5;
      metrics.tokens = 100;
      metrics.step_s = 0.1;
      progress.step(metrics);
    }
    progress.evaluation({7, 50, 1.25, 0.2});
  }
  std::fclose(file);
  const std::string text = read_file(path);
  EXPECT_THAT(text, HasSubstr("step 3/7  loss 1.5000"));
  EXPECT_THAT(text, HasSubstr("step 6/7"));
  EXPECT_THAT(text, HasSubstr("step 7/7  val loss 1.2500  perplexity 3.49"));
  EXPECT_THAT(text, Not(HasSubstr("step 4/7")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
}

}  // namespace
}  // namespace tessera::train
