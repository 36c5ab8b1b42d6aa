#include "tessera/kernels/layer_norm/layer_norm.h"

#include <gtest/gtest.h>

#include <algorithm>
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

using tessera::testing::FloatMatrix;
using tessera::testing::kEpsF32;
using tessera::testing::normal_values;
using tessera::testing::same_float;
using testing::for_each_simd_target;
using Floats = std::vector<float>;

constexpr IsaSet kReference{};

std::size_t size_of(std::int64_t a, std::int64_t b = 1) { return static_cast<std::size_t>(a * b); }

void expect_same(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_TRUE(same_float(a[i], b[i])) << i << ": " << a[i] << ", " << b[i];
}

struct Forward {
  Floats y, mean, rstd;
  std::vector<std::uint16_t> y16;
};

struct Options {
  bool weight = true, bias = true;
  FloatType type = FloatType::kF32;  // of y, of dy
};

// y has a gap of 3 after each row, filled with NaN, which must stay.
Forward forward(std::int64_t rows, std::int64_t cols, const Floats& x, Options options, IsaSet isa) {
  const Floats weight = normal_values(size_of(cols), 2), bias = normal_values(size_of(cols), 3);
  FloatMatrix y(Floats(size_of(rows, cols)), rows, cols, cols + 3);
  Forward out;
  out.mean.resize(size_of(rows)), out.rstd.resize(size_of(rows));
  LayerNormParams p;
  p.rows = rows, p.cols = cols, p.x = x.data();
  p.weight = options.weight ? weight.data() : nullptr;
  p.bias = options.bias ? bias.data() : nullptr;
  p.y = {options.type == FloatType::kF32 ? static_cast<void*>(y.f32.data()) : y.bf16.data(), options.type, cols + 3};
  p.mean = out.mean.data(), p.rstd = out.rstd.data();
  layer_norm(p, isa);
  out.y = y.f32, out.y16 = y.bf16;
  return out;
}

struct Backward {
  Floats dx, dweight, dbias;
};

// `wanted`: bits for dx, dweight, dbias.
Backward backward(std::int64_t rows, std::int64_t cols, const Floats& x, const Forward& saved, Options options,
                  int wanted, IsaSet isa) {
  const Floats weight = normal_values(size_of(cols), 2);
  const FloatMatrix dy(normal_values(size_of(rows, cols), 4), rows, cols, cols + 5);
  Floats workspace(size_of(layer_norm_backward_workspace(rows, cols)));
  Backward out{Floats(size_of(rows, cols), -1), Floats(size_of(cols), -1), Floats(size_of(cols), -1)};
  LayerNormBackwardParams p;
  p.rows = rows, p.cols = cols, p.x = x.data();
  p.weight = options.weight ? weight.data() : nullptr;
  p.mean = saved.mean.data(), p.rstd = saved.rstd.data();
  p.dy = {options.type == FloatType::kF32 ? static_cast<const void*>(dy.f32.data()) : dy.bf16.data(), options.type,
          cols + 5};
  p.dx = wanted & 1 ? out.dx.data() : nullptr;
  p.dweight = wanted & 2 ? out.dweight.data() : nullptr;
  p.dbias = wanted & 4 ? out.dbias.data() : nullptr;
  layer_norm_backward(p, workspace.data(), isa);
  return out;
}

void expect_targets_equal_reference(std::int64_t rows, std::int64_t cols, const Floats& x) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << cols);
  for (int variant = 0; variant < 8; ++variant) {
    const Options options{(variant & 1) != 0, (variant & 2) != 0, variant & 4 ? FloatType::kBf16 : FloatType::kF32};
    const Forward y = forward(rows, cols, x, options, kReference);
    const int wanted = variant == 5 ? 1 : variant == 6 ? 2 : variant == 7 ? 4 : 7;
    const Backward d = backward(rows, cols, x, y, options, wanted, kReference);
    for_each_simd_target([&](IsaSet isa) {
      const Forward fast = forward(rows, cols, x, options, isa);
      expect_same(fast.y, y.y);
      EXPECT_EQ(fast.y16, y.y16);
      expect_same(fast.mean, y.mean);
      expect_same(fast.rstd, y.rstd);
      const Backward fast_d = backward(rows, cols, x, y, options, wanted, isa);
      expect_same(fast_d.dx, d.dx);
      expect_same(fast_d.dweight, d.dweight);
      expect_same(fast_d.dbias, d.dbias);
    });
  }
}

TEST(LayerNorm, TargetsEqualReferenceOnEveryShape) {
  for (const auto [rows, cols] : tessera::testing::kShapes)
    expect_targets_equal_reference(rows, cols, normal_values(size_of(rows, cols), 1));
}

TEST(LayerNorm, TargetsEqualReferenceOnEveryLength) {
  for (std::int64_t cols : tessera::testing::kLengths)
    if (cols > 0) expect_targets_equal_reference(2, cols, tessera::testing::extreme_values(size_of(2, cols), 5));
}

// The formulas of the header in double.
struct Oracle {
  std::int64_t rows, cols;
  std::vector<double> x, weight, bias, dy;
  double eps = 1e-5f;

  double mean(std::int64_t r) const {
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += x[size_of(r * cols + c)];
    return sum / static_cast<double>(cols);
  }
  double rstd(std::int64_t r) const {
    double sum = 0;
    for (std::int64_t c = 0; c < cols; ++c) sum += std::pow(x[size_of(r * cols + c)] - mean(r), 2);
    return 1 / std::sqrt(sum / static_cast<double>(cols) + eps);
  }
  double y(std::int64_t r, std::int64_t c) const {
    return (x[size_of(r * cols + c)] - mean(r)) * rstd(r) * weight[size_of(c)] + bias[size_of(c)];
  }
  double loss() const {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double m = mean(r), s = rstd(r);
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::size_t i = size_of(r * cols + c);
        sum += dy[i] * ((x[i] - m) * s * weight[size_of(c)] + bias[size_of(c)]);
      }
    }
    return sum;
  }
};

std::vector<double> wide(const Floats& x) { return {x.begin(), x.end()}; }

Oracle oracle(std::int64_t rows, std::int64_t cols, const Floats& x) {
  return {rows,
          cols,
          wide(x),
          wide(normal_values(size_of(cols), 2)),
          wide(normal_values(size_of(cols), 3)),
          wide(normal_values(size_of(rows, cols), 4))};
}

TEST(LayerNorm, ForwardEqualsDouble) {
  for (const auto [rows, cols] : tessera::testing::kShapes) {
    if (rows > 5) continue;
    Floats x = normal_values(size_of(rows, cols), 6);
    for (float& v : x) v = 3 * v + 10;  // a mean that is large beside the spread
    const Oracle exact = oracle(rows, cols, x);
    const Forward got = forward(rows, cols, x, {}, enabled_isa());
    const double depth = static_cast<double>(cols) / 16 + 5;  // roundings on an element's way through sum16 and / cols
    for (std::int64_t r = 0; r < rows; ++r) {
      double magnitude = 0;
      for (std::int64_t c = 0; c < cols; ++c) magnitude += std::abs(exact.x[size_of(r * cols + c)]);
      const double mean = exact.mean(r), rstd = exact.rstd(r);
      const double mean_error = depth * kEpsF32 * magnitude / static_cast<double>(cols) + kEpsF32 * std::abs(mean);
      EXPECT_NEAR(got.mean[size_of(r)], mean, mean_error);
      // Terms of the variance: two roundings of the distance, squared, and the product's; moving the center by e
      // moves the variance by e^2. Then + eps, root, reciprocal.
      const double relative = ((depth + 5) / 2 + 3) * kEpsF32 + mean_error * mean_error * rstd * rstd;
      EXPECT_NEAR(got.rstd[size_of(r)], rstd, relative * rstd);
      for (std::int64_t c = 0; c < cols; ++c) {
        const double w = std::abs(exact.weight[size_of(c)]), y = exact.y(r, c);
        const double xhat = std::abs((exact.x[size_of(r * cols + c)] - mean) * rstd);
        const double bound = w * (xhat * (relative + 3 * kEpsF32) + 2 * mean_error * rstd) + kEpsF32 * std::abs(y);
        EXPECT_NEAR(got.y[size_of(r * (cols + 3) + c)], y, bound) << r << " " << c;
      }
    }
  }
}

// dx of the double formula, from given mean and rstd.
double exact_dx(const Oracle& o, std::int64_t r, std::int64_t c, double mean, double rstd) {
  double mean_g = 0, mean_gx = 0;
  const auto g = [&](std::int64_t k) { return o.dy[size_of(r * o.cols + k)] * o.weight[size_of(k)]; };
  const auto xhat = [&](std::int64_t k) { return (o.x[size_of(r * o.cols + k)] - mean) * rstd; };
  for (std::int64_t k = 0; k < o.cols; ++k) mean_g += g(k), mean_gx += g(k) * xhat(k);
  const auto n = static_cast<double>(o.cols);
  return rstd * (g(c) - mean_g / n - xhat(c) * (mean_gx / n));
}

TEST(LayerNorm, BackwardEqualsDouble) {
  for (const auto [rows, cols] : tessera::testing::kShapes) {
    const Floats x = normal_values(size_of(rows, cols), 7);
    const Oracle o = oracle(rows, cols, x);
    const Forward saved = forward(rows, cols, x, {}, enabled_isa());
    const Backward got = backward(rows, cols, x, saved, {}, 7, enabled_isa());
    const double depth = static_cast<double>(cols) / 16 + 5;
    std::vector<double> dweight(size_of(cols)), dbias(dweight), w_size(dweight), b_size(dweight);
    for (std::int64_t r = 0; r < rows; ++r) {
      const double mean = saved.mean[size_of(r)], rstd = saved.rstd[size_of(r)];
      double g_size = 0, gx_size = 0;
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::size_t i = size_of(r * cols + c), k = size_of(c);
        const double xhat = (o.x[i] - mean) * rstd, g = o.dy[i] * o.weight[k];
        g_size += std::abs(g) / static_cast<double>(cols), gx_size += std::abs(g * xhat) / static_cast<double>(cols);
        dweight[k] += o.dy[i] * xhat, w_size[k] += std::abs(o.dy[i] * xhat);
        dbias[k] += o.dy[i], b_size[k] += std::abs(o.dy[i]);
      }
      if (rows > 5 && r % 16 != 0) continue;  // dx row by row is quadratic in cols
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::size_t i = size_of(r * cols + c);
        const double xhat = std::abs((o.x[i] - mean) * rstd), g = std::abs(o.dy[i] * o.weight[size_of(c)]);
        // Per term: roundings of its factors, of its sum, and of the four operations that join them.
        const double bound =
            rstd * kEpsF32 * ((depth + 5) * g_size + xhat * (depth + 9) * gx_size + 5 * (g + g_size + xhat * gx_size));
        EXPECT_NEAR(got.dx[i], exact_dx(o, r, c, mean, rstd), bound) << rows << " x " << cols << ": " << r << ", " << c;
      }
    }
    const double additions = 64 + static_cast<double>(rows) / 64 + 1;
    for (std::size_t c = 0; c < size_of(cols); ++c) {
      EXPECT_NEAR(got.dweight[c], dweight[c], (additions + 3) * kEpsF32 * w_size[c]);
      EXPECT_NEAR(got.dbias[c], dbias[c], additions * kEpsF32 * b_size[c]);
    }
  }
}

TEST(LayerNorm, BackwardIsTheDerivativeOfForward) {
  Oracle o = oracle(2, 17, normal_values(34, 8));
  // Central differences: h^2 times a third derivative of order 100, and 2^-53 times |loss| < 100, divided by h.
  const double h = 1e-5, tolerance = 100 * h * h + 100 * 0x1p-53 / h;
  const auto slope = [&](double& at) {
    const double start = at;
    at = start + h;
    const double above = o.loss();
    at = start - h;
    const double below = o.loss();
    at = start;
    return (above - below) / (2 * h);
  };
  for (std::int64_t r = 0; r < 2; ++r)
    for (std::int64_t c = 0; c < 17; ++c)
      EXPECT_NEAR(slope(o.x[size_of(r * 17 + c)]), exact_dx(o, r, c, o.mean(r), o.rstd(r)), tolerance);
  for (std::int64_t c = 0; c < 17; ++c) {
    double dweight = 0, dbias = 0;
    for (std::int64_t r = 0; r < 2; ++r) {
      const std::size_t i = size_of(r * 17 + c);
      dweight += o.dy[i] * (o.x[i] - o.mean(r)) * o.rstd(r);
      dbias += o.dy[i];
    }
    EXPECT_NEAR(slope(o.weight[size_of(c)]), dweight, tolerance);
    EXPECT_NEAR(slope(o.bias[size_of(c)]), dbias, tolerance);
  }
}

TEST(LayerNorm, NoRowsGiveZeroWeightGradients) {
  const Backward d = backward(0, 33, {}, {}, {}, 7, enabled_isa());
  EXPECT_EQ(d.dweight, Floats(33));
  EXPECT_EQ(d.dbias, Floats(33));
}

TEST(LayerNorm, NotFiniteStaysInItsRow) {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Floats x = normal_values(3 * 65, 9);
    const Forward good = forward(3, 65, x, {}, enabled_isa());
    x[65 + 64] = bad;
    const Forward y = forward(3, 65, x, {}, enabled_isa());
    for (std::size_t c = 0; c < 65; ++c) {
      EXPECT_TRUE(std::isnan(y.y[68 + c])) << c;
      EXPECT_EQ(y.y[c], good.y[c]);
      EXPECT_EQ(y.y[2 * 68 + c], good.y[2 * 68 + c]);
    }
  }
}

TEST(LayerNorm, ThreadsDoNotMatter) {
  const std::int64_t rows = 64 * 5 + 3, cols = 257;
  const Floats x = normal_values(size_of(rows, cols), 10);
  const Forward one = forward(rows, cols, x, {}, enabled_isa());
  const Backward one_d = backward(rows, cols, x, one, {}, 7, enabled_isa());
  for (int threads : {2, 3, 5}) {
    tessera::testing::ThreadBackend backend(threads);
    const Forward several = forward(rows, cols, x, {}, enabled_isa());
    expect_same(several.y, one.y);
    const Backward several_d = backward(rows, cols, x, one, {}, 7, enabled_isa());
    expect_same(several_d.dx, one_d.dx);
    expect_same(several_d.dweight, one_d.dweight);
    expect_same(several_d.dbias, one_d.dbias);
  }
}

}  // namespace
}  // namespace tessera::kernels
