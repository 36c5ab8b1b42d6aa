#include "tessera/kernels/rotate_quantize/rotate_quantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/int4.h"
#include "tessera/base/testing/float_matrix.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/base/testing/tolerance.h"
#include "tessera/kernels/distortion.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using tessera::testing::FloatMatrix;
using testing::for_each_simd_target;

// All outputs of one call, poisoned so that a byte nobody wrote shows.
struct Outputs {
  std::vector<std::uint8_t> packed, mask;
  std::vector<std::int8_t> codes, absmax_codes;
  std::vector<std::uint32_t> scales, absmax_scales, mean, rstd, abs_sums, square_sums;  // bits
  bool operator==(const Outputs&) const = default;
};

struct Case {
  std::int64_t rows, cols;
  std::int32_t block = 1;
  std::int32_t limit = 98;
  std::int64_t gap = 3;
  RowMap map = RowMap::kNone;
  float given = 0;
};

RotateQuantizeParams params_of(const Case& c, const FloatMatrix& x, FloatType type, Outputs& out) {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  const std::int64_t stride = c.cols + c.gap;
  out.packed.assign(size(c.rows * int4_bytes(c.cols)), 0xee);
  out.mask.assign(size(c.rows * ((c.cols + 7) / 8)), 0xee);
  out.codes.assign(size(c.rows * stride), 0x6e);
  out.absmax_codes.assign(size(c.rows * stride), 0x6e);
  out.scales.assign(size(c.rows), 0xeeeeeeee);
  out.absmax_scales.assign(size(c.rows), 0xeeeeeeee);
  out.mean.assign(size(c.rows), 0xeeeeeeee);
  out.rstd.assign(size(c.rows), 0xeeeeeeee);
  RotateQuantizeParams p;
  p.rows = c.rows, p.cols = c.cols, p.block = c.block, p.absmax_limit = c.limit, p.code_stride = stride;
  p.x = {type == FloatType::kF32 ? static_cast<const void*>(x.f32.data() + 1) : x.bf16.data() + 1, type, c.cols + 5};
  p.int4_packed = out.packed.data(), p.int4_codes = out.codes.data(), p.trust_mask = out.mask.data();
  p.int4_scales = reinterpret_cast<float*>(out.scales.data());
  p.absmax_codes = out.absmax_codes.data(), p.absmax_scales = reinterpret_cast<float*>(out.absmax_scales.data());
  p.map = c.map;
  out.abs_sums.assign(size(c.rows), 0xeeeeeeee);
  out.square_sums.assign(size(c.rows), 0xeeeeeeee);
  p.abs_sums = reinterpret_cast<float*>(out.abs_sums.data());
  p.square_sums = reinterpret_cast<float*>(out.square_sums.data());
  if (c.given > 0) p.int4_scale = c.given, p.trust_edge = 7.0f;
  p.layer_norm.mean = reinterpret_cast<float*>(out.mean.data());
  p.layer_norm.rstd = reinterpret_cast<float*>(out.rstd.data());
  return p;
}

// The row starts one element into the buffer, so that nothing is aligned.
FloatMatrix matrix_of(const Case& c, const std::vector<float>& values) {
  FloatMatrix m(values, c.rows, c.cols, c.cols + 5);
  m.f32.insert(m.f32.begin(), 0.0f);
  m.bf16.insert(m.bf16.begin(), std::uint16_t{0});
  return m;
}

void expect_targets_equal_reference(const Case& c, const std::vector<float>& values) {
  SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.cols << " block " << c.block << " limit " << c.limit);
  const FloatMatrix x = matrix_of(c, values);
  for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
    if (c.map == RowMap::kLayerNorm && type == FloatType::kBf16) continue;  // the residual stream is f32
    Outputs expected;
    rotate_quantize_reference(params_of(c, x, type, expected), 0, c.rows);
    for_each_simd_target([&](IsaSet isa) {
      Outputs got;
      rotate_quantize(params_of(c, x, type, got), isa);
      EXPECT_EQ(got.packed, expected.packed);
      EXPECT_EQ(got.codes, expected.codes);
      EXPECT_EQ(got.scales, expected.scales);
      EXPECT_EQ(got.mask, expected.mask);
      EXPECT_EQ(got.absmax_codes, expected.absmax_codes);
      EXPECT_EQ(got.absmax_scales, expected.absmax_scales);
      EXPECT_EQ(got.abs_sums, expected.abs_sums);
      EXPECT_EQ(got.square_sums, expected.square_sums);
      EXPECT_EQ(got.mean, expected.mean);
      EXPECT_EQ(got.rstd, expected.rstd);
    });
  }
}

TEST(RotateQuantize, TargetsEqualReferenceOnEveryLength) {
  for (std::int64_t cols : tessera::testing::kLengths) {
    const Case c{3, cols};
    expect_targets_equal_reference(c, tessera::testing::normal_values(static_cast<std::size_t>(3 * cols), 1));
  }
}

TEST(RotateQuantize, TargetsEqualReferenceOnEveryBlock) {
  for (std::int32_t block : {16, 32, 64, 128, 256}) {
    for (std::int64_t blocks : {1, 3, 5, 19}) {
      const Case c{2, block * blocks, block, block == 64 ? 63 : 127};
      const auto n = static_cast<std::size_t>(c.rows * c.cols);
      expect_targets_equal_reference(c, tessera::testing::outlier_columns(2, n / 2, 37, 30.0f, 2));
      expect_targets_equal_reference(c, tessera::testing::extreme_values(n, 3));
    }
  }
}

TEST(RotateQuantize, MappedRowsEqualReference) {
  for (RowMap map : {RowMap::kLayerNorm, RowMap::kGelu})
    for (std::int32_t block : {1, 16, 128})
      for (std::int64_t cols : {128, 640, 4096 + 256}) {  // the last: rotated, hence mapped, twice
        const Case c{3, cols, block, 98, 5, map};
        const auto n = static_cast<std::size_t>(c.rows * c.cols);
        expect_targets_equal_reference(c, tessera::testing::normal_values(n, 12));
        expect_targets_equal_reference(c, tessera::testing::extreme_values(n, 13));
      }
}

// The fused pass is the two passes: their f32 output, quantized.
TEST(RotateQuantize, LayerNormOfTheRowIsThatOfItsOwnPass) {
  const Case fused{7, 384, 128, 63, 0, RowMap::kLayerNorm}, plain{7, 384, 128, 63, 0};
  const FloatMatrix x(tessera::testing::normal_values(7 * 384, 14), 7, 384, 384);
  const std::vector<float> weight = tessera::testing::normal_values(384, 15),
                           bias = tessera::testing::normal_values(384, 16);
  FloatMatrix y = x;
  std::vector<float> mean(7), rstd(7);
  layer_norm({.rows = 7,
              .cols = 384,
              .x = x.f32.data(),
              .weight = weight.data(),
              .bias = bias.data(),
              .y = {y.f32.data(), FloatType::kF32, 384},
              .mean = mean.data(),
              .rstd = rstd.data()});
  Outputs got, expected;
  RotateQuantizeParams p = params_of(fused, x, FloatType::kF32, got);
  p.x = {x.f32.data(), FloatType::kF32, 384};
  p.layer_norm.weight = weight.data(), p.layer_norm.bias = bias.data();
  rotate_quantize(p);
  p = params_of(plain, y, FloatType::kF32, expected);
  p.x = {y.f32.data(), FloatType::kF32, 384};
  rotate_quantize(p);
  for (std::size_t r = 0; r < 7; ++r) {
    EXPECT_EQ(std::bit_cast<float>(got.mean[r]), mean[r]);
    EXPECT_EQ(std::bit_cast<float>(got.rstd[r]), rstd[r]);
  }
  got.mean = expected.mean, got.rstd = expected.rstd;
  EXPECT_EQ(got, expected);
}

TEST(RotateQuantize, GivenScaleServesAllRowsAndClipsWhatIsFarOut) {
  for (std::int32_t block : {1, 32}) {
    for (float given : {0.3f, 1e-6f, 1e30f}) {
      Case c{3, 160, block};
      c.given = given;
      expect_targets_equal_reference(c, tessera::testing::normal_values(480, 17));
      expect_targets_equal_reference(c, tessera::testing::extreme_values(480, 18));
    }
  }
  Case c{1, 16};
  c.given = 1;
  const FloatMatrix x = matrix_of(c, {0.5f, 1.5f, 6.5f, 7.0f, 7.25f, 7.6f, 1e9f, -1e9f, 0, 0, 0, 0, 0, 0, 0, 0});
  Outputs out;
  rotate_quantize(params_of(c, x, FloatType::kF32, out));
  EXPECT_EQ(std::vector<std::int8_t>(out.codes.begin(), out.codes.begin() + 8),
            (std::vector<std::int8_t>{0, 2, 6, 7, 7, 7, 7, -7}));
  EXPECT_EQ(out.mask[0], 0x0f);
}

TEST(RotateQuantize, ReferenceIsaRunsTheReference) {
  const Case c{5, 48, 16};
  const FloatMatrix x = matrix_of(c, tessera::testing::normal_values(240, 4));
  Outputs expected, got;
  rotate_quantize_reference(params_of(c, x, FloatType::kF32, expected), 0, c.rows);
  rotate_quantize(params_of(c, x, FloatType::kF32, got), IsaSet{});
  EXPECT_EQ(got, expected);
}

TEST(RotateQuantize, LongRowsAreRotatedTwice) {
  const Case c{2, 4096 + 384, 128};
  expect_targets_equal_reference(c, tessera::testing::normal_values(static_cast<std::size_t>(2 * c.cols), 5));
  const Case plain{1, 4096 + 301};
  expect_targets_equal_reference(plain, tessera::testing::normal_values(static_cast<std::size_t>(plain.cols), 6));
}

TEST(RotateQuantize, DegenerateRows) {  // spec T17
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (std::int32_t block : {1, 16}) {
    const Case c{9, 48, block};
    std::vector<float> x(9 * 48, 0.0f);
    const auto row = [&](std::size_t r) { return x.data() + r * 48; };
    row(1)[17] = kInf;
    row(2)[3] = std::nanf("");
    row(3)[47] = -kInf;
    for (int i = 0; i < 48; ++i) row(4)[i] = 1e-40f * static_cast<float>(i);  // denormals
    for (int i = 0; i < 48; ++i) row(5)[i] = 3e38f;                           // overflows when rotated or squared
    for (int i = 0; i < 48; ++i) row(6)[i] = 0.25f;                           // all equal
    for (int i = 0; i < 48; ++i) row(7)[i] = 1e25f;                           // squares overflow
    row(8)[0] = -0.0f;
    expect_targets_equal_reference(c, x);
    Outputs out;
    const FloatMatrix m = matrix_of(c, x);
    rotate_quantize(params_of(c, m, FloatType::kF32, out));
    const auto scale = [&](std::size_t r) { return std::bit_cast<float>(out.scales[r]); };
    const auto absmax = [&](std::size_t r) { return std::bit_cast<float>(out.absmax_scales[r]); };
    for (std::size_t r : {0u, 4u, 8u}) {
      EXPECT_EQ(scale(r), 0.0f) << r;
      EXPECT_EQ(absmax(r), 0.0f) << r;
      for (std::size_t b = 0; b < 6; ++b) EXPECT_EQ(out.mask[r * 6 + b], 0xff) << r;
    }
    for (std::size_t r : {1u, 2u, 3u}) {
      EXPECT_TRUE(std::isnan(scale(r))) << r;
      EXPECT_TRUE(std::isnan(absmax(r))) << r;
    }
    EXPECT_TRUE(std::isnan(scale(5)));
    EXPECT_TRUE(std::isnan(scale(7)));
    EXPECT_TRUE(std::isfinite(absmax(7)));
    for (std::size_t r : {0u, 1u, 2u, 3u, 4u, 5u, 7u, 8u})
      for (std::size_t b = 0; b < 24; ++b) EXPECT_EQ(out.packed[r * 24 + b], 0) << r;
  }
}

TEST(RotateQuantize, GapsAndOddRowsEndInZeros) {
  const Case c{3, 37, 1, 98, 27};
  const FloatMatrix x = matrix_of(c, tessera::testing::normal_values(111, 7));
  Outputs out;
  rotate_quantize(params_of(c, x, FloatType::kF32, out));
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t i = 37; i < 64; ++i) {
      EXPECT_EQ(out.codes[r * 64 + i], 0);
      EXPECT_EQ(out.absmax_codes[r * 64 + i], 0);
    }
    EXPECT_EQ(out.packed[r * 19 + 18] >> 4, 0);
    EXPECT_EQ(out.mask[r * 5 + 4] >> 5, 0);
    for (std::int64_t i = 0; i < 37; ++i)
      EXPECT_EQ(int4_get(out.packed.data() + r * 19, i), out.codes[r * 64 + static_cast<std::size_t>(i)]);
  }
}

TEST(RotateQuantize, OutputsAreOptional) {
  const Case c{3, 96, 32};
  const FloatMatrix x = matrix_of(c, tessera::testing::normal_values(288, 8));
  Outputs all, some;
  rotate_quantize(params_of(c, x, FloatType::kF32, all));
  RotateQuantizeParams p = params_of(c, x, FloatType::kF32, some);
  p.int4_packed = nullptr, p.int4_codes = nullptr, p.trust_mask = nullptr;
  p.absmax_codes = nullptr, p.absmax_scales = nullptr;
  rotate_quantize(p);
  EXPECT_EQ(some.scales, all.scales);
  p = params_of(c, x, FloatType::kF32, some);
  p.int4_scales = nullptr, p.int4_codes = nullptr, p.int4_packed = nullptr;
  rotate_quantize(p);
  EXPECT_EQ(some.mask, all.mask);
  EXPECT_EQ(some.absmax_codes, all.absmax_codes);
}

TEST(RotateQuantize, ThreadsDoNotMatter) {  // spec T15
  const Case c{257, 384, 128};
  const FloatMatrix x = matrix_of(c, tessera::testing::normal_values(257 * 384, 9));
  Outputs one, several;
  rotate_quantize(params_of(c, x, FloatType::kBf16, one));
  for (int threads : {2, 3, 7}) {
    tessera::testing::ThreadBackend backend(threads);
    rotate_quantize(params_of(c, x, FloatType::kBf16, several));
    EXPECT_EQ(several, one);
  }
}

// --- what the numbers must be ---------------------------------------------------------------------------------------

DistortionStats gaussian_distortion(double scale_factor, std::size_t n) {
  DistortionStats stats;
  const float scale = static_cast<float>(scale_factor) * kRms7, inverse = 1.0f / scale;
  for (std::size_t i = 0; i < n; ++i) {
    const float x = tessera::testing::random_normal(10, i);
    const float code = std::fmin(std::fmax(std::nearbyint(x * inverse), -7.0f), 7.0f);
    stats.add(x, code * scale, std::abs(x * inverse) > 7.5f);
  }
  return stats;
}

TEST(RotateQuantize, GaussianErrorIsThatOfTheGrid) {  // spec T1
  constexpr std::int64_t kRows = 250, kCols = 4000;
  const std::vector<float> x = tessera::testing::normal_values(kRows * kCols, 11);
  std::vector<std::int8_t> codes(kRows * kCols);
  std::vector<float> scales(kRows);
  std::vector<std::uint8_t> mask(kRows * kCols / 8);
  RotateQuantizeParams p;
  p.rows = kRows, p.cols = kCols, p.x = {x.data(), FloatType::kF32, kCols}, p.code_stride = kCols;
  p.int4_codes = codes.data(), p.int4_scales = scales.data(), p.trust_mask = mask.data();
  rotate_quantize(p);
  DistortionStats stats;
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_GE(codes[i], -7);
    stats.add(x[i], static_cast<float>(codes[i]) * scales[i / kCols], !((mask[i / 8] >> (i % 8)) & 1));
  }
  EXPECT_NEAR(stats.mean_squared_error(), 0.012889, 0.005 * 0.012889);
  EXPECT_NEAR(stats.clipped_share(), 0.00804, 0.0005);
}

TEST(RotateQuantize, ScaleIsTheOptimum) {  // spec T2
  const double best = gaussian_distortion(1.0, 1000000).mean_squared_error();
  EXPECT_GT(gaussian_distortion(0.98, 1000000).mean_squared_error(), best);
  EXPECT_GT(gaussian_distortion(1.02, 1000000).mean_squared_error(), best);
}

TEST(RotateQuantize, PlateausAreExact) {
  // Rows whose values are integers 98 at most in magnitude, one of them 98: the absmax scale is 1 and nothing rounds.
  std::vector<float> x(197);
  for (int i = 0; i < 197; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i - 98);
  const Case c{1, 197};
  Outputs out;
  rotate_quantize(params_of(c, matrix_of(c, x), FloatType::kF32, out));
  EXPECT_EQ(std::bit_cast<float>(out.absmax_scales[0]), 1.0f);
  for (int i = 0; i < 197; ++i) EXPECT_EQ(out.absmax_codes[static_cast<std::size_t>(i)], i - 98);
}

}  // namespace
}  // namespace tessera::kernels
