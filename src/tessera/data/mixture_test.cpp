#include "tessera/data/mixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::vector<std::vector<double>> kWeights = {
    {1}, {1, 1}, {3, 1}, {0.7, 0.2, 0.1}, {1, 2, 3, 4, 5, 6, 7}, {1e-12, 1}, {1, 1e-12}, {1e300, 1e300, 1e300}};

// The definition, counted sample by sample: pick's index is the number of earlier samples of its source.
TEST(Mixture, IndexCountsEarlierSamples) {
  for (const auto& weights : kWeights) {
    for (const std::uint64_t seed : {0, 1, 2}) {
      const Mixture mixture(weights, seed);
      std::vector<std::int64_t> seen(weights.size());
      for (std::int64_t i = 0; i < 2000; ++i) {
        for (std::size_t k = 0; k < weights.size(); ++k) {
          ASSERT_EQ(mixture.count(static_cast<std::int64_t>(k), i), seen[k]);
        }
        const Mixture::Pick pick = mixture.pick(i);
        ASSERT_EQ(pick.index, seen.at(static_cast<std::size_t>(pick.source)));
        ++seen[static_cast<std::size_t>(pick.source)];
      }
    }
  }
}

TEST(Mixture, EveryPrefixHasItsShare) {
  for (const auto& weights : kWeights) {
    const Mixture mixture(weights, 5);
    double total = 0;
    for (const double weight : weights) {
      total += weight / weights[0];
    }
    for (const std::int64_t n :
         {std::int64_t{1}, std::int64_t{10}, std::int64_t{997}, std::int64_t{1} << 20, std::int64_t{1} << 45}) {
      std::int64_t sum = 0;
      for (std::size_t k = 0; k < weights.size(); ++k) {
        const std::int64_t count = mixture.count(static_cast<std::int64_t>(k), n);
        const double share = static_cast<double>(n) * (weights[k] / weights[0] / total);
        // K samples by the rule, and the double arithmetic of weights and of this line: a few ulp of n.
        EXPECT_NEAR(static_cast<double>(count), share,
                    static_cast<double>(weights.size()) + 8 * static_cast<double>(n) * 0x1p-52);
        sum += count;
      }
      EXPECT_EQ(sum, n);
    }
  }
}

TEST(Mixture, FarSamplesAreConsistent) {
  const Mixture mixture(kWeights[3], 7);
  const std::int64_t far = (std::int64_t{1} << 62) + 12345;
  std::vector<std::int64_t> counts;
  for (std::int64_t k = 0; k < 3; ++k) {
    counts.push_back(mixture.count(k, far));
  }
  for (std::int64_t i = far; i < far + 1000; ++i) {
    const Mixture::Pick pick = mixture.pick(i);
    EXPECT_EQ(pick.index, counts[static_cast<std::size_t>(pick.source)]++);
  }
}

TEST(Mixture, SeedsShiftThePattern) {
  const auto pattern = [](std::uint64_t seed) {
    const Mixture mixture(kWeights[4], seed);
    std::vector<std::int64_t> sources;
    for (std::int64_t i = 0; i < 100; ++i) {
      sources.push_back(mixture.pick(i).source);
    }
    return sources;
  };
  EXPECT_EQ(pattern(1), pattern(1));
  EXPECT_NE(pattern(1), pattern(2));
}

TEST(Mixture, BadWeightsAreErrors) {
  EXPECT_THAT([] { Mixture({}, 0); }, ThrowsMessage<Error>(HasSubstr("at least one source")));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double weight : {0.0, -1.0, kInf, std::numeric_limits<double>::quiet_NaN()}) {
    const std::vector<double> weights = {1, weight};
    EXPECT_THAT([&] { Mixture(weights, 0); }, ThrowsMessage<Error>(HasSubstr("the weight of source 1 is")));
  }
}

}  // namespace
}  // namespace tessera::data
