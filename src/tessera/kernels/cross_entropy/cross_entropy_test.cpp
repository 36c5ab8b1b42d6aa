#include "tessera/kernels/cross_entropy/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/base/testing/tolerance.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using tessera::testing::kEpsF32;
using tessera::testing::normal_values;
using tessera::testing::same_float;
using testing::for_each_simd_target;
using Floats = std::vector<float>;
using Targets = std::vector<std::int64_t>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kGap = 3;

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

void expect_same(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_TRUE(same_float(a[i], b[i])) << i << ": " << a[i] << ", " << b[i];
}

// Every fifth target is ignored.
Targets random_targets(std::int64_t rows, std::int64_t cols) {
  Targets targets;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t word = tessera::testing::random_word(1, static_cast<std::uint64_t>(r));
    targets.push_back(r % 5 == 4 ? kIgnoreTarget : word % cols);
  }
  return targets;
}

struct Result {
  Floats logits, loss;
};

// Rows lie cols + kGap apart; the gap holds a mark that must stay.
Result result(std::int64_t rows, std::int64_t cols, const Floats& x, const Targets& targets, bool gradient, IsaSet isa,
              float gradient_scale = 0.37f) {
  Result out{Floats(size_of(rows * (cols + kGap)), 123.0f), Floats(size_of(rows), -1.0f)};
  for (std::int64_t i = 0; i < rows * cols; ++i)
    out.logits[size_of(i / cols * (cols + kGap) + i % cols)] = x[size_of(i)];
  CrossEntropyParams p;
  p.rows = rows, p.cols = cols, p.logits = out.logits.data(), p.stride = cols + kGap;
  p.targets = targets.data(), p.loss = out.loss.data();
  p.gradient = gradient, p.gradient_scale = gradient_scale;
  cross_entropy(p, isa);
  return out;
}

void expect_targets_equal_reference(std::int64_t rows, std::int64_t cols, const Floats& x, const Targets& targets) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
  for (bool gradient : {false, true}) {
    const Result expected = result(rows, cols, x, targets, gradient, IsaSet{});
    for_each_simd_target([&](IsaSet isa) {
      const Result got = result(rows, cols, x, targets, gradient, isa);
      expect_same(got.loss, expected.loss);
      expect_same(got.logits, expected.logits);
    });
  }
}

TEST(SoftmaxExp, RelativeErrorIsBelowTwoRoundings) {  // the header derives the bound
  Floats a;
  for (int i = 0; i <= 400000; ++i) a.push_back(static_cast<float>(-87.0 * i / 400000));
  for (int i = 0; i < 200000; ++i)
    a.push_back(-static_cast<float>(std::ldexp(tessera::testing::random_uniform(2, size_of(i)), -(i % 30))));
  Floats y(a.size());
  const auto n = static_cast<std::int64_t>(a.size());
  softmax_exp(a.data(), y.data(), n);
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double exact = std::exp(static_cast<double>(a[i]));
    worst = std::max(worst, std::abs(y[i] - exact) / exact);
  }
  EXPECT_LT(worst, 2 * kEpsF32);
  Floats reference(a.size());
  softmax_exp_reference(a.data(), reference.data(), n);
  expect_same(y, reference);
  for_each_simd_target([&](IsaSet isa) {
    softmax_exp(a.data(), y.data(), n, isa);
    expect_same(y, reference);
  });
}

TEST(SoftmaxExp, Borders) {
  const Floats a = {0.0f, -0.0f, -kInfinity, std::nextafter(-87.0f, -88.0f), -1e30f, kNan, -1e-45f, -87.0f};
  for_each_simd_target([&](IsaSet isa) {
    Floats y(a.size());
    softmax_exp(a.data(), y.data(), static_cast<std::int64_t>(a.size()), isa);
    EXPECT_EQ(y[0], 1.0f);
    EXPECT_EQ(y[1], 1.0f);
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[3], 0.0f);
    EXPECT_EQ(y[4], 0.0f);
    EXPECT_TRUE(std::isnan(y[5]));
    EXPECT_EQ(y[6], 1.0f);
    EXPECT_TRUE(std::isnormal(y[7]));
  });
}

TEST(CrossEntropy, TargetsEqualReferenceOnEveryShape) {
  for (const auto [rows, cols] : tessera::testing::kShapes) {
    Floats x = normal_values(size_of(rows * cols), 3);
    for (float& v : x) v *= 10;
    expect_targets_equal_reference(rows, cols, x, random_targets(rows, cols));
  }
}

TEST(CrossEntropy, TargetsEqualReferenceOnEveryLength) {
  for (std::int64_t cols : tessera::testing::kLengths) {
    if (cols == 0) continue;
    expect_targets_equal_reference(2, cols, tessera::testing::extreme_values(size_of(2 * cols), 4), {cols - 1, 0});
  }
}

TEST(CrossEntropy, TargetsEqualReferenceOnNotFiniteRows) {
  for (float bad : {kNan, kInfinity, -kInfinity}) {
    for (std::int64_t at : {0, 15, 16, 64}) {
      Floats x = normal_values(3 * 65, 5);
      x[size_of(65 + at)] = bad;
      expect_targets_equal_reference(3, 65, x, {3, 7, 64});
    }
  }
  expect_targets_equal_reference(2, 33, Floats(66, -kInfinity), {3, 7});
}

struct Exact {
  std::vector<double> loss, gradient, softmax, exp_sum;
};

Exact exact_result(std::int64_t rows, std::int64_t cols, const Floats& x, const Targets& targets, double scale) {
  Exact out{std::vector<double>(size_of(rows)), std::vector<double>(size_of(rows * cols)),
            std::vector<double>(size_of(rows * cols)), std::vector<double>(size_of(rows))};
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t target = targets[size_of(r)];
    if (target == kIgnoreTarget) continue;
    double max = -1e300, sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) max = std::max<double>(max, x[size_of(r * cols + c)]);
    for (std::int64_t c = 0; c < cols; ++c) sum += std::exp(x[size_of(r * cols + c)] - max);
    out.loss[size_of(r)] = std::log(sum) + max - x[size_of(r * cols + target)];
    out.exp_sum[size_of(r)] = sum;
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::size_t i = size_of(r * cols + c);
      out.softmax[i] = std::exp(x[i] - max) / sum;
      out.gradient[i] = (out.softmax[i] - (c == target)) * scale;
    }
  }
  return out;
}

TEST(CrossEntropy, EqualsDouble) {
  const float scale = 0.37f;
  for (const auto [rows, cols] : tessera::testing::kShapes) {
    Floats x = normal_values(size_of(rows * cols), 6);
    for (float& v : x) v *= 10;
    const Targets targets = random_targets(rows, cols);
    const Exact exact = exact_result(rows, cols, x, targets, scale);
    const Result got = result(rows, cols, x, targets, true, enabled_isa(), scale);
    for (std::int64_t r = 0; r < rows; ++r) {
      double spread = 0;  // largest |x - max|, whose rounding is an absolute error of the exponent
      for (std::int64_t c = 0; c < cols; ++c)
        for (std::int64_t k : {std::int64_t{0}, cols - 1})
          spread = std::max<double>(spread, 2 * std::abs(x[size_of(r * cols + c)] - x[size_of(r * cols + k)]));
      const double e_relative = kEpsF32 * (spread + 2);
      const double sum_relative = e_relative + kEpsF32 * (static_cast<double>(cols) / 16 + 5);
      const double loss = exact.loss[size_of(r)];
      EXPECT_NEAR(got.loss[size_of(r)], loss, sum_relative + kEpsF32 * std::abs(loss));
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::size_t i = size_of(r * cols + c);
        // Softmax: e, sum, reciprocal, product with the scale, product; the target's also the difference.
        const double relative = e_relative + sum_relative + 3 * kEpsF32;
        const double bound = scale * exact.softmax[i] * relative + 2 * kEpsF32 * std::abs(exact.gradient[i]) + 0x1p-125;
        EXPECT_NEAR(got.logits[size_of(r * (cols + kGap) + c)], exact.gradient[i], bound) << r << ", " << c;
      }
    }
  }
}

TEST(CrossEntropy, GradientIsTheDerivativeOfTheLoss) {
  const std::int64_t cols = 19;
  const Floats x = normal_values(size_of(cols), 7);
  const Exact exact = exact_result(1, cols, x, {4}, 1);
  // Central differences of the double formula, as wide as floats need: h^2 / 6 times a third derivative below 1, and
  // a center that rounding of the floats (|x| < 4) moves by up to 2^-23, times a second derivative up to 1 / 4.
  const double h = 0x1p-10;
  for (std::int64_t c = 0; c < cols; ++c) {
    Floats above = x, below = x;
    above[size_of(c)] += static_cast<float>(h), below[size_of(c)] -= static_cast<float>(h);
    const double width = static_cast<double>(above[size_of(c)]) - below[size_of(c)];
    const double slope =
        (exact_result(1, cols, above, {4}, 1).loss[0] - exact_result(1, cols, below, {4}, 1).loss[0]) / width;
    EXPECT_NEAR(slope, exact.gradient[size_of(c)], h * h / 6 + 0x1p-25);
  }
}

TEST(CrossEntropy, GradientRowsSumToZero) {
  const std::int64_t cols = 523;
  const Result got = result(1, cols, normal_values(size_of(cols), 8), {100}, true, enabled_isa(), 1);
  double sum = 0;
  for (std::int64_t c = 0; c < cols; ++c) sum += got.logits[size_of(c)];
  // Softmax sums to 1 up to the roundings of its sum (cols / 16 + 5) and of each value (4).
  EXPECT_NEAR(sum, 0, kEpsF32 * (static_cast<double>(cols) / 16 + 9));
}

TEST(CrossEntropy, IgnoredRowsAreZeroWhateverTheyHold) {
  Floats x = normal_values(3 * 17, 9);
  x[17] = kNan;
  const Result got = result(3, 17, x, {2, kIgnoreTarget, 3}, true, enabled_isa());
  EXPECT_EQ(got.loss[1], 0.0f);
  EXPECT_GT(got.loss[0], 0.0f);
  for (std::size_t c = 0; c < 17; ++c) EXPECT_EQ(got.logits[20 + c], 0.0f);
  const Result none = result(3, 17, x, Targets(3, kIgnoreTarget), true, enabled_isa());
  EXPECT_EQ(none.loss, Floats(3));
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t c = 0; c < 20; ++c) EXPECT_EQ(none.logits[r * 20 + c], c < 17 ? 0.0f : 123.0f);
}

TEST(CrossEntropy, NotFiniteLogitsShow) {
  for (float bad : {kNan, kInfinity}) {
    Floats x = normal_values(3 * 33, 10);
    x[33 + 20] = bad;
    const Result got = result(3, 33, x, {1, 2, 3}, true, enabled_isa());
    EXPECT_TRUE(std::isnan(got.loss[1]));
    for (std::size_t c = 0; c < 33; ++c) EXPECT_TRUE(std::isnan(got.logits[36 + c]));
    EXPECT_TRUE(std::isfinite(got.loss[0]) && std::isfinite(got.loss[2]));
  }
}

TEST(CrossEntropy, WithoutGradientLogitsStay) {
  const Floats x = normal_values(2 * 31, 11);
  const Result got = result(2, 31, x, {1, 2}, false, enabled_isa());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got.logits[i / 31 * 34 + i % 31], x[i]);
}

TEST(CrossEntropy, HugeLogitsNeitherOverflowNorLoseTheLoss) {
  const Result got = result(1, 3, {3e38f, -3e38f, 0.0f}, {0}, true, enabled_isa(), 1);
  EXPECT_EQ(got.loss[0], 0.0f);
  EXPECT_EQ(got.logits[0], 0.0f);
  EXPECT_EQ(got.logits[1], 0.0f);
}

TEST(CrossEntropy, ThreadsDoNotMatter) {
  const std::int64_t rows = 67, cols = 1031;
  const Floats x = normal_values(size_of(rows * cols), 12);
  const Targets targets = random_targets(rows, cols);
  const Result one = result(rows, cols, x, targets, true, enabled_isa());
  for (int threads : {2, 3}) {
    tessera::testing::ThreadBackend backend(threads);
    const Result several = result(rows, cols, x, targets, true, enabled_isa());
    expect_same(several.loss, one.loss);
    expect_same(several.logits, one.logits);
  }
}

}  // namespace
}  // namespace tessera::kernels
