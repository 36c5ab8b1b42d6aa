#include "tessera/kernels/dropout/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/testing/float_matrix.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/base/testing/tolerance.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using tessera::testing::same_float;
using testing::for_each_simd_target;
using Floats = std::vector<float>;

constexpr PhiloxKey kKey{0x12345678u, 0x9abcdef0u};

DropoutParams params(float p, FloatType type) {
  DropoutParams params;
  params.type = type, params.p = p, params.key = kKey, params.step = 41, params.micro_batch = 3;
  return params;
}

Floats dropped(const Floats& x, float p, IsaSet isa = enabled_isa()) {
  Floats y(x.size(), -1);
  DropoutParams d = params(p, FloatType::kF32);
  d.n = static_cast<std::int64_t>(x.size()), d.x = x.data(), d.y = y.data();
  dropout(d, isa);
  return y;
}

std::vector<std::uint16_t> dropped_bf16(const std::vector<std::uint16_t>& x, float p, IsaSet isa) {
  std::vector<std::uint16_t> y(x.size(), 1);
  DropoutParams d = params(p, FloatType::kBf16);
  d.n = static_cast<std::int64_t>(x.size()), d.x = x.data(), d.y = y.data();
  dropout(d, isa);
  return y;
}

TEST(Dropout, TargetsEqualReferenceOnEveryLength) {
  std::vector<std::int64_t> lengths(tessera::testing::kLengths.begin(), tessera::testing::kLengths.end());
  lengths.insert(lengths.end(), {4093, 4096, 4099, 3 * 4096 + 37});
  for (std::int64_t n : lengths) {
    const Floats x = tessera::testing::extreme_values(static_cast<std::size_t>(n), 1);
    std::vector<std::uint16_t> narrow;
    for (float v : x) narrow.push_back(tessera::testing::bf16_bits(v));
    for (float p : {0.0f, 0.1f, 0.5f, 0.999f}) {
      const Floats expected = dropped(x, p, IsaSet{});
      const auto expected_bf16 = dropped_bf16(narrow, p, IsaSet{});
      for_each_simd_target([&](IsaSet isa) {
        const Floats y = dropped(x, p, isa);
        for (std::size_t i = 0; i < y.size(); ++i) ASSERT_TRUE(same_float(y[i], expected[i])) << n << " " << i;
        EXPECT_EQ(dropped_bf16(narrow, p, isa), expected_bf16) << n;
      });
    }
  }
}

TEST(Dropout, MaskIsTheDocumentedPhiloxDraw) {
  const Floats y = dropped(Floats(101, 1.0f), 0.3f);
  for (std::uint32_t i = 0; i < 101; ++i) {
    const bool keep = uniform_float(philox(kKey, {41, 3, 0, i / 4})[i % 4]) >= 0.3f;
    EXPECT_EQ(y[i], keep ? static_cast<float>(1 / (1 - static_cast<double>(0.3f))) : 0.0f) << i;
  }
}

TEST(Dropout, ThresholdIsExact) {  // p equal to some draw: that draw is kept, the next larger p drops it
  const float draw = uniform_float(philox(kKey, {41, 3, 0, 0})[0]);
  ASSERT_GT(draw, 0.0f);
  for_each_simd_target([&](IsaSet isa) {
    EXPECT_NE(dropped({1.0f}, draw, isa)[0], 0.0f);
    EXPECT_EQ(dropped({1.0f}, std::nextafter(draw, 1.0f), isa)[0], 0.0f);
  });
}

TEST(Dropout, APartGetsTheMaskItHasInTheWhole) {
  const Floats ones(2 * 4096 + 5, 1.0f), whole = dropped(ones, 0.5f);
  Floats part(ones.size() - 4096);
  DropoutParams d = params(0.5f, FloatType::kF32);
  d.n = static_cast<std::int64_t>(part.size()), d.first = 4096, d.x = ones.data(), d.y = part.data();
  dropout(d);
  EXPECT_EQ(part, Floats(whole.begin() + 4096, whole.end()));
}

TEST(Dropout, QuadsBeyond32BitsUseTheHighWord) {
  const std::int64_t first = (std::int64_t{3} << 34) - 4096;
  for_each_simd_target([&](IsaSet isa) {
    const Floats ones(2 * 4096, 1.0f);
    Floats y(ones.size());
    DropoutParams d = params(0.5f, FloatType::kF32);
    d.n = 2 * 4096, d.first = first, d.x = ones.data(), d.y = y.data();
    dropout(d, isa);
    for (std::uint32_t i = 0; i < 4096; ++i) {
      ASSERT_EQ(y[i] != 0, uniform_float(philox(kKey, {41, 3, 2, 0xfffffc00u + i / 4})[i % 4]) >= 0.5f) << i;
      ASSERT_EQ(y[4096 + i] != 0, uniform_float(philox(kKey, {41, 3, 3, i / 4})[i % 4]) >= 0.5f) << i;
    }
  });
}

TEST(Dropout, KeepsTheMeanAndTheFraction) {
  const std::size_t n = 200000;
  for (float p : {0.1f, 0.5f}) {
    const Floats y = dropped(Floats(n, 1.0f), p);
    double kept = 0, sum = 0;
    for (float v : y) kept += v != 0, sum += v;
    const double deviation = std::sqrt(static_cast<double>(n) * p * (1 - p));  // binomial; 5 sigma, fixed seed
    EXPECT_NEAR(kept, n * (1 - static_cast<double>(p)), 5 * deviation);
    EXPECT_NEAR(sum, n, 5 * deviation / (1 - static_cast<double>(p)));
  }
}

TEST(Dropout, StepsAndMicroBatchesDiffer) {
  const Floats ones(256, 1.0f);
  const Floats first = dropped(ones, 0.5f);
  DropoutParams d = params(0.5f, FloatType::kF32);
  Floats y(256);
  d.n = 256, d.x = ones.data(), d.y = y.data();
  d.step = 42;
  dropout(d);
  EXPECT_NE(y, first);
  d.step = 41, d.micro_batch = 4;
  dropout(d);
  EXPECT_NE(y, first);
}

TEST(Dropout, ZeroProbabilityIsTheIdentityAndInPlaceWorks) {
  const Floats x = tessera::testing::normal_values(523, 2);
  EXPECT_EQ(dropped(x, 0), x);
  Floats in_place = x;
  DropoutParams d = params(0.4f, FloatType::kF32);
  d.n = 523, d.x = in_place.data(), d.y = in_place.data();
  dropout(d);
  EXPECT_EQ(in_place, dropped(x, 0.4f));
}

TEST(Dropout, NotFiniteValuesThatAreKeptShow) {
  const Floats y = dropped(Floats(64, std::numeric_limits<float>::quiet_NaN()), 0.5f);
  const Floats mask = dropped(Floats(64, 1.0f), 0.5f);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(std::isnan(y[i]), mask[i] != 0);
}

TEST(Dropout, ThreadsDoNotMatter) {
  const Floats x = tessera::testing::normal_values(9 * 4096 + 5, 3);
  const Floats one = dropped(x, 0.2f);
  for (int threads : {2, 3, 7}) {
    tessera::testing::ThreadBackend backend(threads);
    EXPECT_EQ(dropped(x, 0.2f), one);
  }
}

}  // namespace
}  // namespace tessera::kernels
