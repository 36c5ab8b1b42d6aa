#include "tessera/base/part_timers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>

namespace tessera {
namespace {

constexpr auto kPause = std::chrono::milliseconds(20);
void pause() { std::this_thread::sleep_for(kPause); }
double seconds_of(const PartSeconds& seconds, Part part) { return seconds[static_cast<std::size_t>(part)]; }
double sum(const PartSeconds& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

// A pause lasts at least as long as it was asked to; how much longer, the machine decides.
constexpr double kLeast = 0.02;

TEST(PartTimersTest, CountNothingWhenOff) {
  enable_part_timers(true);
  enable_part_timers(false);
  {
    const ScopedPart part(Part::kIntMatmul);
    pause();
  }
  EXPECT_EQ(sum(part_seconds()), 0);
}

TEST(PartTimersTest, NestedPartsAreTakenOff) {
  const auto start = std::chrono::steady_clock::now();
  enable_part_timers(true);
  {
    const ScopedPart outer(Part::kAttention);
    pause();
    {
      const ScopedPart inner(Part::kUnrotate);
      pause();
    }
    pause();
  }
  enable_part_timers(false);
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const PartSeconds seconds = part_seconds();
  EXPECT_GE(seconds_of(seconds, Part::kAttention), 2 * kLeast);
  EXPECT_GE(seconds_of(seconds, Part::kUnrotate), kLeast);
  EXPECT_LE(sum(seconds), elapsed);  // nothing is counted twice
}

TEST(PartTimersTest, WholePartsKeepWhatIsInside) {
  enable_part_timers(true);
  {
    const ScopedPart outer(Part::kHeadLoss);
    const ScopedPart inner(Part::kIntMatmul);
    const ScopedPart innermost(Part::kWeightCodes);
    pause();
  }
  enable_part_timers(false);
  const PartSeconds seconds = part_seconds();
  EXPECT_GE(seconds_of(seconds, Part::kHeadLoss), kLeast);
  EXPECT_EQ(sum(seconds), seconds_of(seconds, Part::kHeadLoss));
}

TEST(PartTimersTest, StartFromZeroAndNamesDiffer) {
  enable_part_timers(true);
  enable_part_timers(false);
  EXPECT_EQ(sum(part_seconds()), 0);
  for (int i = 0; i < kParts; ++i)
    for (int j = 0; j < i; ++j) EXPECT_NE(part_name(static_cast<Part>(i)), part_name(static_cast<Part>(j)));
}

}  // namespace
}  // namespace tessera
