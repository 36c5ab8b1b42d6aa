#include "tessera/data/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tessera::data {
namespace {

std::vector<std::int64_t> whole(PhiloxKey key, std::int64_t epoch, std::int64_t n) {
  std::vector<std::int64_t> image(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    image[static_cast<std::size_t>(i)] = permute(key, epoch, n, i);
  }
  return image;
}

const PhiloxKey kKey = philox_key(1, "source 0", "order");

TEST(Permutation, HitsEveryIndexOnce) {
  for (std::int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 63, 64, 65, 257, 1000, 4096, 4099}) {
    for (std::int64_t epoch : {std::int64_t{0}, std::int64_t{1}, std::int64_t{1} << 40}) {
      std::vector<std::int64_t> image = whole(kKey, epoch, n);
      std::sort(image.begin(), image.end());
      for (std::int64_t i = 0; i < n; ++i) {
        ASSERT_EQ(image[static_cast<std::size_t>(i)], i) << n << " in epoch " << epoch;
      }
    }
  }
}

TEST(Permutation, EveryRangeUpToTheLargestIsServed) {
  for (const std::int64_t n :
       {std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1, (std::int64_t{1} << 62) + 1, INT64_MAX}) {
    for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, n / 2, n - 1}) {
      const std::int64_t image = permute(kKey, 3, n, i);
      EXPECT_TRUE(image >= 0 && image < n) << n << ' ' << i;
    }
  }
}

TEST(Permutation, KeysAndEpochsDiffer) {
  const auto base = whole(kKey, 0, 1000);
  EXPECT_EQ(base, whole(kKey, 0, 1000));
  EXPECT_NE(base, whole(kKey, 1, 1000));
  EXPECT_NE(base, whole(kKey, std::int64_t{1} << 32, 1000));
  EXPECT_NE(base, whole(philox_key(2, "source 0", "order"), 0, 1000));
}

// Over many keys each index goes to each place equally often: a cell's count is binomial(keys, 1/n), standard
// deviation sqrt(keys/n (1 - 1/n)); the largest of n*n cells stays within 5 of them (chance of failure < 1e-4, and
// the seeds are fixed).
TEST(Permutation, PlacesAreUniform) {
  for (const std::int64_t n : {2, 3, 6, 13}) {
    constexpr int kKeys = 20'000;
    std::vector<int> counts(static_cast<std::size_t>(n * n));
    for (int k = 0; k < kKeys; ++k) {
      const PhiloxKey key = philox_key(static_cast<std::uint64_t>(k), "source 0", "order");
      for (std::int64_t i = 0; i < n; ++i) {
        ++counts[static_cast<std::size_t>(i * n + permute(key, 0, n, i))];
      }
    }
    const double mean = static_cast<double>(kKeys) / static_cast<double>(n);
    const double deviation = std::sqrt(mean * (1 - 1 / static_cast<double>(n)));
    for (const int count : counts) {
      EXPECT_NEAR(count, mean, 5 * deviation) << "n = " << n;
    }
  }
}

}  // namespace
}  // namespace tessera::data
