#include "tessera/kernels/adamw/adamw.h"

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

struct State {
  Floats parameter, gradient, m, v;

  AdamWParams params() {
    AdamWParams p;
    p.n = static_cast<std::int64_t>(parameter.size());
    p.parameter = parameter.data(), p.gradient = gradient.data(), p.m = m.data(), p.v = v.data();
    p.grad_scale = 0.7f, p.lr = 3e-3f, p.weight_decay = 0.1f, p.t = 3;
    return p;
  }
};

State random_state(std::size_t n) {
  State s{normal_values(n, 1), normal_values(n, 2), normal_values(n, 3), normal_values(n, 4)};
  for (float& v : s.v) v *= v;
  return s;
}

void expect_same(const State& a, const State& b) {
  for (std::size_t i = 0; i < a.m.size(); ++i) {
    ASSERT_TRUE(same_float(a.m[i], b.m[i])) << "m " << i;
    ASSERT_TRUE(same_float(a.v[i], b.v[i])) << "v " << i;
    ASSERT_TRUE(same_float(a.parameter[i], b.parameter[i])) << "parameter " << i;
  }
}

void expect_targets_equal_reference(const State& start, float weight_decay) {
  State expected = start;
  AdamWParams p = expected.params();
  p.weight_decay = weight_decay;
  adamw_reference(p, 0, p.n);
  for_each_simd_target([&](IsaSet isa) {
    State got = start;
    AdamWParams q = got.params();
    q.weight_decay = weight_decay;
    adamw(q, isa);
    expect_same(got, expected);
  });
}

TEST(AdamW, TargetsEqualReferenceOnEveryLength) {
  for (std::int64_t n : tessera::testing::kLengths) {
    SCOPED_TRACE(n);
    expect_targets_equal_reference(random_state(static_cast<std::size_t>(n)), 0.1f);
    expect_targets_equal_reference(random_state(static_cast<std::size_t>(n)), 0);
  }
  expect_targets_equal_reference(random_state(3 * 4096 + 5), 0.1f);
}

TEST(AdamW, TargetsEqualReferenceOnExtremeValues) {
  State s = random_state(4099);
  s.gradient = tessera::testing::extreme_values(4099, 5);
  s.m = tessera::testing::extreme_values(4099, 6);
  s.v = tessera::testing::extreme_values(4099, 7);
  for (float& v : s.v) v = std::abs(v);
  s.gradient[7] = std::numeric_limits<float>::quiet_NaN();
  s.gradient[4098] = std::numeric_limits<float>::infinity();
  expect_targets_equal_reference(s, 0.1f);
}

TEST(AdamW, EqualsDouble) {
  const std::size_t n = 523;
  const State start = random_state(n);
  State got = start;
  const AdamWParams p = got.params();
  adamw(p);
  const double b1 = p.beta1, b2 = p.beta2, t = static_cast<double>(p.t);
  for (std::size_t i = 0; i < n; ++i) {
    const double m0 = start.m[i], v0 = start.v[i], w0 = start.parameter[i];
    const double g = static_cast<double>(start.gradient[i]) * p.grad_scale;
    const double m = m0 + (1 - b1) * (g - m0), v = b2 * v0 + (1 - b2) * g * g;
    const double update = (p.lr / (1 - std::pow(b1, t))) * m / (std::sqrt(v / (1 - std::pow(b2, t))) + p.eps);
    const double w = w0 - static_cast<double>(p.lr) * p.weight_decay * w0 - update;
    // m: g, c1, difference, product round the increment; one more for the sum.
    const double m_error = kEpsF32 * (4 * (1 - b1) * (std::abs(g) + std::abs(m0)) + std::abs(m));
    // v: two for g^2's factor g, then g^2, c2, product, sum, and the like for beta2 v: at most 6, all terms positive.
    const double v_relative = 6 * kEpsF32;
    // update: relative errors of m and of sqrt(v), then step, product, root, product, root's sum, quotient.
    const double update_error = std::abs(update) * (v_relative / 2 + 7 * kEpsF32) + std::abs(update / m) * m_error;
    const double decay_error = 2 * kEpsF32 * static_cast<double>(p.lr) * p.weight_decay * std::abs(w0);
    EXPECT_NEAR(got.m[i], m, m_error);
    EXPECT_NEAR(got.v[i], v, v_relative * v);
    EXPECT_NEAR(got.parameter[i], w, update_error + decay_error + kEpsF32 * 2 * (std::abs(w0) + std::abs(update)));
  }
}

TEST(AdamW, FirstStepMovesByLr) {  // m / (1 - beta1) = g, v / (1 - beta2) = g^2
  for (float g : {1e-3f, -2.0f, 1e4f}) {
    State s{{0.0f}, {g}, {0.0f}, {0.0f}};
    AdamWParams p = s.params();
    p.t = 1;
    adamw(p);
    const double step = static_cast<double>(p.lr) / (1 + static_cast<double>(p.eps) / std::abs(g) / 0.7);
    // Roundings: 3 of m, 4 / 2 of v, root, and 7 of the quotient as above.
    EXPECT_NEAR(s.parameter[0], g > 0 ? -step : step, 13 * kEpsF32 * step);
  }
}

TEST(AdamW, StateWithoutGradientEndsAtZeroNotAtDenormals) {
  State s{Floats(37, 1), Floats(37, 0), Floats(37, 1), Floats(37, 1)};
  bool zero = false;
  for (std::int64_t t = 1; t < 3000 && !zero; ++t) {
    AdamWParams p = s.params();
    p.t = t;
    adamw(p);
    for (std::size_t i = 0; i < s.m.size(); ++i) {
      ASSERT_TRUE(s.m[i] == 0 || std::isnormal(s.m[i]));
      ASSERT_TRUE(s.v[i] == 0 || std::isnormal(s.v[i]));
    }
    zero = s.m[36] == 0 && s.v[36] == 0;
  }
  EXPECT_TRUE(zero);
  EXPECT_TRUE(std::isfinite(s.parameter[36]));
}

TEST(AdamW, NotFiniteGradientStaysInItsElement) {
  const State start = random_state(33);
  State good = start, bad = start;
  bad.gradient[5] = std::numeric_limits<float>::quiet_NaN();
  adamw(good.params());
  adamw(bad.params());
  EXPECT_TRUE(std::isnan(bad.parameter[5]) && std::isnan(bad.m[5]) && std::isnan(bad.v[5]));
  for (std::size_t i = 0; i < 33; ++i) {
    if (i != 5) {
      EXPECT_EQ(bad.parameter[i], good.parameter[i]);
    }
  }
}

TEST(AdamW, ThreadsDoNotMatter) {
  const State start = random_state(20 * 4096 + 7);
  State one = start;
  adamw(one.params());
  for (int threads : {2, 3, 5}) {
    tessera::testing::ThreadBackend backend(threads);
    State several = start;
    adamw(several.params());
    expect_same(several, one);
  }
}

// The definition in one loop: blocks of 4096, 16 partial sums.
double plain_sum_of_squares(const Floats& x) {
  double sum = 0;
  for (std::size_t first = 0; first < x.size(); first += 4096) {
    const std::size_t n = std::min<std::size_t>(4096, x.size() - first);
    sum += sum_of_squares_reference(x.data() + first, static_cast<std::int64_t>(n));
  }
  return sum;
}

TEST(SumOfSquares, TargetsEqualReference) {
  std::vector<std::int64_t> lengths(tessera::testing::kLengths.begin(), tessera::testing::kLengths.end());
  lengths.insert(lengths.end(), {4095, 4096, 4097, 3 * 4096 + 11});
  for (std::int64_t n : lengths) {
    const Floats x = tessera::testing::extreme_values(static_cast<std::size_t>(n), 8);
    const double expected = plain_sum_of_squares(x);
    EXPECT_EQ(sum_of_squares(x.data(), n, IsaSet{}), expected) << n;
    for_each_simd_target([&](IsaSet isa) { EXPECT_EQ(sum_of_squares(x.data(), n, isa), expected) << n; });
  }
}

TEST(SumOfSquares, EqualsLongDouble) {
  const Floats x = normal_values(50021, 9);
  long double exact = 0;
  for (float v : x) exact += static_cast<long double>(v) * static_cast<long double>(v);
  // Products are exact; an element passes at most 256 + 4 + 13 additions in double.
  const double got = sum_of_squares(x.data(), static_cast<std::int64_t>(x.size()));
  EXPECT_NEAR(got, static_cast<double>(exact), 274 * 0x1p-53 * static_cast<double>(exact));
}

TEST(SumOfSquares, LargestFloatsDoNotOverflowAndNotFiniteShows) {
  Floats x(1000, std::numeric_limits<float>::max());
  EXPECT_TRUE(std::isfinite(sum_of_squares(x.data(), 1000)));
  x[999] = -std::numeric_limits<float>::infinity();
  EXPECT_FALSE(std::isfinite(sum_of_squares(x.data(), 1000)));
  x[999] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(std::isfinite(sum_of_squares(x.data(), 1000)));
}

TEST(SumOfSquares, ThreadsAndRoundsDoNotMatter) {  // more than the 1024 blocks of a round
  Floats x(1030 * 4096 + 17);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 1000003) * 1e-3f;
  const double expected = plain_sum_of_squares(x);
  const auto n = static_cast<std::int64_t>(x.size());
  EXPECT_EQ(sum_of_squares(x.data(), n), expected);
  for (int threads : {2, 3}) {
    tessera::testing::ThreadBackend backend(threads);
    EXPECT_EQ(sum_of_squares(x.data(), n), expected);
  }
}

}  // namespace
}  // namespace tessera::kernels
