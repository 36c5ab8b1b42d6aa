#include "tessera/kernels/gradient_codes/gradient_codes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "tessera/base/testing/float_matrix.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using testing::for_each_simd_target;
using tessera::testing::FloatMatrix;
using Codes = std::vector<std::int8_t>;

float largest(const std::vector<float>& values) {
  float m = 0;
  for (const float v : values) m = std::max(m, std::fabs(v));
  return m;
}

struct Case {
  std::int64_t rows, cols;
  GradientGrid grid;
  std::uint32_t step = 7;
};

// Codes with a gap of 5 bytes, poisoned before.
Codes codes_of(const Case& c, const std::vector<float>& values, FloatType type, IsaSet isa = enabled_isa()) {
  const FloatMatrix y(values, c.rows, c.cols, c.cols + 3);
  Codes codes(static_cast<std::size_t>(c.rows * (c.cols + 5)), 0x6e);
  GradientCodesParams p;
  p.rows = c.rows, p.cols = c.cols, p.grid = c.grid;
  p.y = {type == FloatType::kF32 ? static_cast<const void*>(y.f32.data()) : y.bf16.data(), type, c.cols + 3};
  p.scale = largest(values) / static_cast<float>(gradient_limit(c.grid));
  p.key = philox_key(1, "test", "dY"), p.step = c.step, p.micro_batch = 2, p.row_offset = 11;
  p.codes = codes.data(), p.code_stride = c.cols + 5;
  gradient_codes(p, isa);
  return codes;
}

TEST(GradientCodes, TargetsEqualReferenceOnEveryLength) {
  for (const GradientGrid grid : {GradientGrid::kSplit, GradientGrid::kFp4})
    for (const std::int64_t cols : tessera::testing::kLengths)
      for (const FloatType type : {FloatType::kF32, FloatType::kBf16}) {
        std::vector<float> values = tessera::testing::normal_values(static_cast<std::size_t>(3 * cols), 1);
        for (std::size_t i = 0; i < values.size(); i += 3)  // spread over many powers of two
          values[i] *= std::exp2(-static_cast<float>(i % 17));
        const Case c{3, cols, grid};
        const Codes expected = codes_of(c, values, type, IsaSet{});
        for_each_simd_target([&](IsaSet isa) { EXPECT_EQ(codes_of(c, values, type, isa), expected) << cols; });
      }
}

// T5, T14: means over draws against the values, in units of the estimate's own standard deviation; every level of the grid
// and nothing else; M itself is exact. 4096 elements x 256 draws: the mean of squared z is 1 with deviation 0.022.
TEST(GradientCodes, IsUnbiasedOnItsGrid) {
  constexpr std::int64_t kSize = 4096;
  std::vector<float> values = tessera::testing::normal_values(kSize, 2);
  for (std::size_t i = 0; i < kSize; ++i) values[i] *= std::exp2(-static_cast<float>(i % 9));
  const float m = largest(values);
  for (const GradientGrid grid : {GradientGrid::kSplit, GradientGrid::kFp4}) {
    const float scale = m / static_cast<float>(gradient_limit(grid));
    std::vector<double> sum(kSize), squares(kSize);
    std::set<int> seen;
    constexpr int kDraws = 256;
    for (std::uint32_t draw = 0; draw < kDraws; ++draw) {
      const Codes codes = codes_of({1, kSize, grid, draw}, values, FloatType::kF32);
      for (std::size_t i = 0; i < kSize; ++i) {
        sum[i] += codes[i];
        squares[i] += codes[i] * codes[i];
        seen.insert(std::abs(static_cast<int>(codes[i])));
        if (std::fabs(values[i]) == m) {
          EXPECT_EQ(std::abs(static_cast<int>(codes[i])), gradient_limit(grid));
        }
      }
    }
    if (grid == GradientGrid::kFp4) {
      EXPECT_EQ(seen, (std::set<int>{0, 1, 2, 4, 8, 16, 32, 64}));
    } else {
      EXPECT_EQ(*seen.rbegin(), 98);
    }
    double bias = 0, variance = 0;
    for (std::size_t i = 0; i < kSize; ++i) {
      const double mean = sum[i] / kDraws;
      bias += std::pow(mean - static_cast<double>(values[i]) / scale, 2);
      variance += (squares[i] - sum[i] * mean) / (kDraws - 1) / kDraws;
    }
    EXPECT_GE(bias / variance, 0.9);
    EXPECT_LE(bias / variance, 1.1);
  }
}

TEST(GradientCodes, ZeroAndTinyMatricesHaveZeroCodes) {
  for (const GradientGrid grid : {GradientGrid::kSplit, GradientGrid::kFp4})
    for (const float value : {0.0f, 1e-40f})
      for_each_simd_target([&](IsaSet isa) {
        EXPECT_EQ(codes_of({2, 9, grid}, std::vector<float>(18, value), FloatType::kF32, isa), Codes(2 * 14, 0));
      });
}

TEST(GradientCodes, ThreadsDoNotMatterAndStepsDo) {
  const Case c{257, 384, GradientGrid::kFp4};
  const std::vector<float> values = tessera::testing::normal_values(257 * 384, 3);
  const Codes one = codes_of(c, values, FloatType::kBf16);
  for (const int threads : {2, 3, 7}) {
    tessera::testing::ThreadBackend backend(threads);
    EXPECT_EQ(codes_of(c, values, FloatType::kBf16), one);
  }
  EXPECT_NE(codes_of({c.rows, c.cols, c.grid, 8}, values, FloatType::kBf16), one);
}

}  // namespace
}  // namespace tessera::kernels
