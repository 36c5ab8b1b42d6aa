#include "tessera/kernels/fold_quantize/fold_quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/aligned_buffer.h"
#include "tessera/base/int4.h"
#include "tessera/base/testing/float_matrix.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/base/testing/tolerance.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using tessera::testing::FloatMatrix;
using testing::for_each_simd_target;

// All outputs of one call, poisoned so that a byte nobody wrote shows. Floats as their bits.
struct Outputs {
  std::vector<std::int8_t> row_codes, column_codes;
  std::vector<std::uint32_t> row_scales, column_scales, column_sum;
  bool operator==(const Outputs&) const = default;
};

struct Case {
  std::int64_t rows, cols;
  Rounding rounding = Rounding::kStochastic;
  std::int32_t limit = 98;
  std::uint32_t step = 5;
  std::int64_t gap = 7;
};

struct Data {
  FloatMatrix y;
  std::vector<float> row_fold, column_fold;
};

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

Data make_data(const Case& c, const std::vector<float>& values) {
  Data data{FloatMatrix(values, c.rows, c.cols, c.cols + 3), tessera::testing::normal_values(size(c.cols), 51),
            tessera::testing::normal_values(size(c.rows), 52)};
  return data;
}

FoldQuantizeParams params_of(const Case& c, const Data& data, FloatType type, Outputs& out) {
  out.row_codes.assign(size(c.rows * (c.cols + c.gap)), 0x6e);
  out.column_codes.assign(size(c.cols * (c.rows + c.gap)), 0x6e);
  out.row_scales.assign(size(c.rows), 0xeeeeeeee);
  out.column_scales.assign(size(c.cols), 0xeeeeeeee);
  out.column_sum.assign(size(c.cols), 0xeeeeeeee);
  FoldQuantizeParams p;
  p.rows = c.rows, p.cols = c.cols, p.limit = c.limit, p.rounding = c.rounding;
  const void* y = type == FloatType::kF32 ? static_cast<const void*>(data.y.f32.data()) : data.y.bf16.data();
  p.y = {y, type, c.cols + 3};
  p.key = {0x1234567, 0x89abcdef}, p.step = c.step, p.micro_batch = 3, p.row_offset = 1000;
  p.row_fold = data.row_fold.data(), p.column_fold = data.column_fold.data();
  p.row_codes = out.row_codes.data(), p.row_stride = c.cols + c.gap;
  p.column_codes = out.column_codes.data(), p.column_stride = c.rows + c.gap;
  p.row_scales = reinterpret_cast<float*>(out.row_scales.data());
  p.column_scales = reinterpret_cast<float*>(out.column_scales.data());
  p.column_sum = reinterpret_cast<float*>(out.column_sum.data());
  return p;
}

void run(const FoldQuantizeParams& p, IsaSet isa = enabled_isa()) {
  AlignedBuffer<std::byte> workspace(size(fold_quantize_workspace(p)));
  for (std::byte& b : workspace.span()) b = std::byte{0xff};  // NaN: contents are undefined
  fold_quantize(p, workspace.data(), isa);
}

void expect_targets_equal_reference(const Case& c, const std::vector<float>& values) {
  SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.cols << " limit " << c.limit);
  const Data data = make_data(c, values);
  for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
    Outputs expected;
    fold_quantize_reference(params_of(c, data, type, expected));
    for_each_simd_target([&](IsaSet isa) {
      Outputs got;
      run(params_of(c, data, type, got), isa);
      EXPECT_EQ(got.row_scales, expected.row_scales);
      EXPECT_EQ(got.row_codes, expected.row_codes);
      EXPECT_EQ(got.column_scales, expected.column_scales);
      EXPECT_EQ(got.column_codes, expected.column_codes);
      EXPECT_EQ(got.column_sum, expected.column_sum);
    });
  }
}

TEST(FoldQuantize, TargetsEqualReferenceOnEveryShape) {
  for (const auto& shape : tessera::testing::kShapes) {
    for (Rounding rounding : {Rounding::kStochastic, Rounding::kNearestEven}) {
      const Case c{shape.rows, shape.cols, rounding, shape.rows % 2 ? 98 : 63};
      const std::size_t n = size(c.rows * c.cols);
      expect_targets_equal_reference(c, tessera::testing::normal_values(n, 53));
      expect_targets_equal_reference(c, tessera::testing::extreme_values(n, 54));
    }
  }
  for (std::int64_t length : tessera::testing::kLengths) {
    const Case wide{2, length, Rounding::kStochastic, 127}, tall{length, 2, Rounding::kStochastic, 127};
    expect_targets_equal_reference(wide, tessera::testing::normal_values(size(2 * length), 55));
    expect_targets_equal_reference(tall, tessera::testing::normal_values(size(2 * length), 56));
  }
}

TEST(FoldQuantize, ReferenceIsaRunsTheReference) {
  const Case c{20, 30};
  const Data data = make_data(c, tessera::testing::normal_values(600, 57));
  Outputs expected, got;
  fold_quantize_reference(params_of(c, data, FloatType::kF32, expected));
  run(params_of(c, data, FloatType::kF32, got), IsaSet{});
  EXPECT_EQ(got, expected);
}

TEST(FoldQuantize, OutputsAreOptional) {
  const Case c{70, 90};
  const Data data = make_data(c, tessera::testing::normal_values(6300, 58));
  Outputs all, some;
  run(params_of(c, data, FloatType::kF32, all));
  FoldQuantizeParams p = params_of(c, data, FloatType::kF32, some);
  p.column_codes = nullptr, p.column_scales = nullptr, p.column_sum = nullptr;
  run(p);
  EXPECT_EQ(some.row_codes, all.row_codes);
  EXPECT_EQ(some.row_scales, all.row_scales);
  p = params_of(c, data, FloatType::kF32, some);
  p.row_codes = nullptr, p.row_scales = nullptr;
  run(p);
  EXPECT_EQ(some.column_codes, all.column_codes);
  EXPECT_EQ(some.column_scales, all.column_scales);
  EXPECT_EQ(some.column_sum, all.column_sum);
  p = params_of(c, data, FloatType::kF32, some);
  p.row_codes = nullptr, p.column_codes = nullptr;
  run(p);
  EXPECT_EQ(some.column_sum, all.column_sum);
}

TEST(FoldQuantize, NoFoldIsAFoldOfOnes) {
  const Case c{33, 47};
  Data data = make_data(c, tessera::testing::normal_values(33 * 47, 59));
  data.row_fold.assign(47, 1.0f), data.column_fold.assign(33, 1.0f);
  Outputs ones, null;
  run(params_of(c, data, FloatType::kF32, ones));
  FoldQuantizeParams p = params_of(c, data, FloatType::kF32, null);
  p.row_fold = nullptr, p.column_fold = nullptr;
  run(p);
  EXPECT_EQ(null, ones);
}

TEST(FoldQuantize, DegenerateGroups) {  // spec T17
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (Rounding rounding : {Rounding::kStochastic, Rounding::kNearestEven}) {
    const Case c{70, 80, rounding};
    std::vector<float> y = tessera::testing::normal_values(70 * 80, 60);
    const auto at = [&](std::size_t n, std::size_t k) -> float& { return y[n * 80 + k]; };
    for (std::size_t k = 0; k < 80; ++k) at(10, k) = 0, at(11, k) = 1e-40f, at(12, k) = 0.5f, at(13, k) = 3e38f;
    for (std::size_t n = 0; n < 70; ++n) at(n, 20) = 0, at(n, 21) = -1e-41f, at(n, 70) = -0.0f;
    at(30, 40) = kNan, at(66, 77) = kInf, at(5, 78) = -kInf;
    expect_targets_equal_reference(c, y);
    Data data = make_data(c, y);
    data.row_fold.assign(80, 1.0f), data.column_fold.assign(70, 1.0f);
    Outputs out;
    run(params_of(c, data, FloatType::kF32, out));
    const auto row_scale = [&](std::size_t n) { return std::bit_cast<float>(out.row_scales[n]); };
    const auto column_scale = [&](std::size_t k) { return std::bit_cast<float>(out.column_scales[k]); };
    EXPECT_EQ(row_scale(10), 0.0f);
    EXPECT_EQ(row_scale(11), 0.0f);
    EXPECT_EQ(column_scale(20), column_scale(70));
    for (std::size_t n : {5u, 30u, 66u}) EXPECT_TRUE(std::isnan(row_scale(n))) << n;
    for (std::size_t k : {40u, 77u, 78u}) EXPECT_TRUE(std::isnan(column_scale(k))) << k;
    for (std::size_t n : {5u, 10u, 11u, 30u, 66u})
      for (std::size_t k = 0; k < 87; ++k) ASSERT_EQ(out.row_codes[n * 87 + k], 0) << n << " " << k;
    for (std::size_t k : {40u, 77u, 78u})
      for (std::size_t n = 0; n < 77; ++n) ASSERT_EQ(out.column_codes[k * 77 + n], 0) << n << " " << k;
    data.column_fold[3] = kNan;  // a bad factor spoils every column and no row
    run(params_of(c, data, FloatType::kF32, out));
    for (std::size_t k = 0; k < 80; ++k) EXPECT_TRUE(std::isnan(column_scale(k))) << k;
    EXPECT_TRUE(std::isfinite(row_scale(3)));
  }
}

TEST(FoldQuantize, EmptyMatricesHaveZeroGaps) {
  for (const Case& c : {Case{0, 5}, Case{5, 0}}) {
    const Data data = make_data(c, {});
    Outputs out;
    run(params_of(c, data, FloatType::kF32, out));
    for (std::int8_t code : out.row_codes) EXPECT_EQ(code, 0);
    for (std::int8_t code : out.column_codes) EXPECT_EQ(code, 0);
    for (std::uint32_t bits : out.row_scales) EXPECT_EQ(bits, 0u);
    for (std::uint32_t bits : out.column_scales) EXPECT_EQ(bits, 0u);
    for (std::uint32_t bits : out.column_sum) EXPECT_EQ(bits, 0u);
  }
}

TEST(FoldQuantize, ThreadsDoNotMatterAndTheCounterDoes) {  // spec T15
  const Case c{331, 260};
  const Data data = make_data(c, tessera::testing::normal_values(331 * 260, 61));
  Outputs one, other;
  run(params_of(c, data, FloatType::kBf16, one));
  for (int threads : {2, 3, 7}) {
    tessera::testing::ThreadBackend backend(threads);
    run(params_of(c, data, FloatType::kBf16, other));
    EXPECT_EQ(other, one);
  }
  const auto changed = [&](auto&& change) {
    FoldQuantizeParams p = params_of(c, data, FloatType::kBf16, other);
    change(p);
    run(p);
    EXPECT_NE(other.row_codes, one.row_codes);
    EXPECT_NE(other.column_codes, one.column_codes);
    EXPECT_EQ(other.row_scales, one.row_scales);
  };
  changed([](FoldQuantizeParams& p) { p.step += 1; });
  changed([](FoldQuantizeParams& p) { p.micro_batch += 1; });
  changed([](FoldQuantizeParams& p) { p.key.k1 ^= 1; });
  changed([](FoldQuantizeParams& p) { p.row_offset += 1; });
}

TEST(FoldQuantize, RowsDrawByTheirGlobalIndex) {  // the second half alone gives the second half's row codes
  const Case whole{128, 96}, half{64, 96};
  const std::vector<float> y = tessera::testing::normal_values(128 * 96, 62);
  Outputs all, second;
  run(params_of(whole, make_data(whole, y), FloatType::kF32, all));
  const Data data = make_data(half, {y.begin() + 64 * 96, y.end()});
  FoldQuantizeParams p = params_of(half, data, FloatType::kF32, second);
  p.row_offset += 64;
  run(p);
  EXPECT_TRUE(std::equal(second.row_codes.begin(), second.row_codes.end(), all.row_codes.begin() + 64 * 103));
}

TEST(FoldQuantize, ColumnSumIsThatOfTheUnquantizedMatrix) {  // spec T16
  const Case c{1000, 37};
  const std::vector<float> y = tessera::testing::normal_values(37000, 63);
  Outputs out;
  run(params_of(c, make_data(c, y), FloatType::kF32, out));
  for (std::size_t k = 0; k < 37; ++k) {
    double sum = 0, magnitudes = 0;
    for (std::size_t n = 0; n < 1000; ++n) sum += y[n * 37 + k], magnitudes += std::abs(y[n * 37 + k]);
    // An element passes at most 64 additions in its block and 16 of blocks.
    const double bound = tessera::testing::error_bound(64 + 16, tessera::testing::kEpsF32, magnitudes);
    EXPECT_NEAR(std::bit_cast<float>(out.column_sum[k]), sum, bound) << k;
  }
}

// --- the bit split, spec T5 ------------------------------------------------------------------------------------------

int high_plane(int q) { return static_cast<int>(std::floor((q + 7) / 14.0)); }

TEST(FoldQuantize, BitSplitPlanesFitInt4AndRebuildTheCode) {
  for (int q = -98; q <= 98; ++q) {
    const int high = split_high(q), low = split_low(q);
    EXPECT_EQ(high, high_plane(q));
    EXPECT_LE(std::abs(high), 7) << q;
    EXPECT_LE(std::abs(low), 7) << q;
    EXPECT_EQ(14 * high + low, q);
  }
}

TEST(FoldQuantize, LargestValueIsCode98AndIntegersAreExact) {
  std::vector<float> y(197);
  for (int i = 0; i < 197; ++i) y[size(i)] = 0.5f * static_cast<float>(i - 98);  // +-M = 49, steps of M / 98, ties / 14
  const Case c{1, 197};
  Data data = make_data(c, y);
  data.row_fold.assign(197, 1.0f);
  for (std::uint32_t step = 0; step < 50; ++step) {
    Outputs out;
    FoldQuantizeParams p = params_of(c, data, FloatType::kF32, out);
    p.step = step;
    run(p);
    EXPECT_EQ(std::bit_cast<float>(out.row_scales[0]), 0.5f);
    for (int i = 0; i < 197; ++i) ASSERT_EQ(out.row_codes[size(i)], i - 98);
  }
}

// R = sum (mean - exact)^2 / sum (var / K) over all elements (spec 9.1): 1 without bias, larger with.
struct RatioTest {
  explicit RatioTest(std::size_t n) : sums(n, 0.0) {}
  std::vector<double> sums;
  double ratio(const std::vector<double>& v, int draws) const {
    double error = 0, variance = 0;
    for (std::size_t i = 0; i < v.size(); ++i) {
      const double frac = v[i] - std::floor(v[i]);
      error += std::pow(sums[i] / draws - v[i], 2);
      variance += frac * (1 - frac) / draws;
    }
    return error / variance;
  }
};

TEST(FoldQuantize, StochasticRoundingIsUnbiasedInBothDirections) {
  constexpr int kDraws = 64;
  const Case c{120, 112, Rounding::kStochastic, 98, 5, 0};
  const Data data = make_data(c, tessera::testing::normal_values(120 * 112, 64));
  const std::size_t n = 120 * 112;
  RatioTest rows(n), columns(n), clamped(n);
  std::vector<double> v_rows(n), v_columns(n);
  for (int draw = 0; draw < kDraws; ++draw) {
    Outputs out;
    FoldQuantizeParams p = params_of(c, data, FloatType::kF32, out);
    p.step = static_cast<std::uint32_t>(draw);
    run(p);
    for (std::size_t r = 0; r < 120; ++r) {
      for (std::size_t k = 0; k < 112; ++k) {
        const std::size_t i = r * 112 + k, j = k * 120 + r;
        const float y = data.y.f32[r * 115 + k];
        v_rows[i] = y * data.row_fold[k] * (1.0f / std::bit_cast<float>(out.row_scales[r]));
        v_columns[j] = y * data.column_fold[r] * (1.0f / std::bit_cast<float>(out.column_scales[k]));
        rows.sums[i] += out.row_codes[i];
        columns.sums[j] += out.column_codes[j];
        // What the released code of the method does: both planes clamped to +-6.
        const int high = std::clamp(high_plane(out.row_codes[i]), -6, 6);
        clamped.sums[i] += 14 * high + std::clamp(out.row_codes[i] - 14 * high, -6, 6);
      }
    }
  }
  EXPECT_NEAR(rows.ratio(v_rows, kDraws), 1.0, 0.1);
  EXPECT_NEAR(columns.ratio(v_columns, kDraws), 1.0, 0.1);
  EXPECT_GT(clamped.ratio(v_rows, kDraws), 1.1) << "the clamp at +-6 must show as bias";
}

TEST(FoldQuantize, BothDirectionsDrawIndependently) {
  // Equal values everywhere and no folds: v is the same in both directions, the roundings must not be.
  const Case c{256, 256, Rounding::kStochastic, 98, 5, 0};
  std::vector<float> y(256 * 256, 0.5f);
  for (std::size_t i = 0; i < 256; ++i) y[i * 256 + i] = 98.0f;  // every group's maximum: scale 1, v = 0.5
  Data data = make_data(c, y);
  data.row_fold.assign(256, 1.0f), data.column_fold.assign(256, 1.0f);
  Outputs out;
  run(params_of(c, data, FloatType::kF32, out));
  int both = 0, up = 0;
  for (std::size_t r = 0; r < 256; ++r) {
    for (std::size_t k = 0; k < 256; ++k) {
      if (r == k) continue;
      up += out.row_codes[r * 256 + k];
      both += out.row_codes[r * 256 + k] * out.column_codes[k * 256 + r];
    }
  }
  // n = 65280 coins: five standard deviations around n / 2 and n / 4.
  EXPECT_NEAR(up, 32640, 5 * std::sqrt(65280 * 0.25));
  EXPECT_NEAR(both, 16320, 5 * std::sqrt(65280 * 0.1875));
}

}  // namespace
}  // namespace tessera::kernels
