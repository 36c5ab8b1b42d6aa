#include "tessera/optim/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/base/testing/tolerance.h"

namespace tessera::optim {
namespace {

using tessera::testing::kEpsF32;
using tessera::testing::normal_values;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Floats = std::vector<float>;

constexpr float kLr = 3e-3f;

// A matrix that decays and a vector that does not.
struct Model {
  Floats matrix = normal_values(31 * 17, 1), vector = normal_values(523, 2);
  Floats d_matrix, d_vector;

  static std::vector<ParameterInfo> infos() { return {{"matrix", 31 * 17, true}, {"vector", 523, false}}; }
  std::vector<Parameter> parameters() {
    return {{"vector", vector, d_vector}, {"matrix", matrix, d_matrix}};  // another order than infos
  }
  // Gradients of step `t`: noise around the value, so that parameters move and return.
  void make_gradients(int t) {
    d_matrix = normal_values(matrix.size(), 100 + static_cast<std::uint64_t>(t));
    d_vector = normal_values(vector.size(), 200 + static_cast<std::uint64_t>(t));
  }
};

void run_steps(AdamW& adamw, Model& model, int from, int to) {
  for (int t = from; t < to; ++t) {
    model.make_gradients(t);
    adamw.step(model.parameters(), kLr, 0.5f);
  }
}

TEST(AdamW, FiftyStepsFollowDoubleWithDecayOfMatricesOnly) {
  constexpr int kSteps = 50;
  const AdamWOptions options;
  AdamW adamw(options, Model::infos());
  Model model, start;
  run_steps(adamw, model, 0, kSteps);
  EXPECT_EQ(adamw.steps(), kSteps);

  const auto check = [&](const Floats& got, const Floats& first, std::uint64_t seed, double decay) {
    std::vector<double> p(first.begin(), first.end()), m(p.size()), v(p.size()), bound(p.size());
    const double b1 = options.beta1, b2 = options.beta2;
    for (int t = 1; t <= kSteps; ++t) {
      const Floats gradient = normal_values(p.size(), seed + static_cast<std::uint64_t>(t - 1));
      const double c1 = 1 - std::pow(b1, t), c2 = 1 - std::pow(b2, t);
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double g = 0.5 * static_cast<double>(gradient[i]);
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        const double root = std::sqrt(v[i] / c2) + options.eps;
        p[i] -= static_cast<double>(kLr) * decay * p[i];
        p[i] -= kLr / c1 * m[i] / root;
        // Rounding of m: at most 4 units of an increment of (|g| + |m|) (1 - b1) plus one of |m| per step, and older
        // errors fade with b1, so 1 / (1 - b1) = 10 steps' worth; |g|, |m| < 4 sigma of 0.5. Relative to the root,
        // which v's own 6 / (1 - b2) = 120 units of relative error shift by half of that, plus 7 for the quotient.
        const double m_error = kEpsF32 * 10 * (4 * 0.1 * 4 + 2);
        const double v_relative = kEpsF32 * 120;
        const double update = std::abs(kLr / c1 * m[i] / root);
        bound[i] += kLr / c1 * m_error / root + update * (v_relative / 2 + 7 * kEpsF32) + 4 * kEpsF32 * std::abs(p[i]);
      }
    }
    for (std::size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(got[i], p[i], bound[i]) << i;
  };
  check(model.matrix, start.matrix, 100, static_cast<double>(options.weight_decay));
  check(model.vector, start.vector, 200, 0);
}

TEST(AdamW, DecayIsForMatrices) {
  const std::int64_t matrix[] = {3, 4}, vector[] = {12};
  EXPECT_TRUE(decays(matrix));
  EXPECT_FALSE(decays(vector));
  EXPECT_FALSE(decays({}));
}

TEST(AdamW, ResumeEqualsNeverHavingStopped) {
  AdamW straight({}, Model::infos());
  Model model;
  run_steps(straight, model, 0, 40);

  AdamW first({}, Model::infos());
  Model resumed;
  run_steps(first, resumed, 0, 20);
  AdamW second({}, Model::infos());
  for (const ParameterInfo& info : first.parameters()) {
    std::ranges::copy(first.moments(info.name).m, second.moments(info.name).m.begin());
    std::ranges::copy(first.moments(info.name).v, second.moments(info.name).v.begin());
  }
  second.set_steps(first.steps());
  run_steps(second, resumed, 20, 40);
  EXPECT_EQ(resumed.matrix, model.matrix);
  EXPECT_EQ(resumed.vector, model.vector);
}

TEST(AdamW, ThreadsDoNotMatter) {
  constexpr std::size_t kSize = 10 * 4096 + 13;
  const auto train = [] {
    AdamW adamw({}, {{"w", static_cast<std::int64_t>(kSize), true}});
    Floats w = normal_values(kSize, 3);
    const Floats gradient = normal_values(kSize, 4);
    for (int t = 0; t < 3; ++t) adamw.step(std::vector<Parameter>{{"w", w, gradient}}, kLr);
    return w;
  };
  const Floats one = train();
  tessera::testing::ThreadBackend backend(3);
  EXPECT_EQ(train(), one);
}

TEST(AdamW, StateStartsAtZeroAndEmptyParametersWork) {
  AdamW adamw({}, {{"empty", 0, true}, {"w", 37, true}});
  for (float m : adamw.moments("w").m) EXPECT_EQ(m, 0.0f);
  for (float v : adamw.moments("w").v) EXPECT_EQ(v, 0.0f);
  EXPECT_EQ(adamw.moments("w").m.size(), 37u);
  EXPECT_EQ(adamw.steps(), 0);
  Floats w(37, 1), gradient(37, 1);
  adamw.step(std::vector<Parameter>{{"empty", {}, {}}, {"w", w, gradient}}, kLr);
  EXPECT_LT(w[36], 1.0f);
}

TEST(AdamW, BadOptionsAreSentences) {
  const auto with = [](AdamWOptions options) { return [options] { AdamW(options, {}); }; };
  EXPECT_THAT(with({.beta1 = 1.0f}), ThrowsMessage<Error>(HasSubstr("beta1 is 1")));
  EXPECT_THAT(with({.beta2 = -0.5f}), ThrowsMessage<Error>(HasSubstr("beta2 is -0.5")));
  EXPECT_THAT(with({.beta2 = std::numeric_limits<float>::quiet_NaN()}),
              ThrowsMessage<Error>(HasSubstr("beta2 is nan")));
  EXPECT_THAT(with({.eps = 0}), ThrowsMessage<Error>(HasSubstr("eps is 0")));
  EXPECT_THAT(with({.weight_decay = -1}), ThrowsMessage<Error>(HasSubstr("weight decay is -1")));
  EXPECT_THAT(
      [] {
        AdamW({}, {{"w", 3, true}, {"w", 4, false}});
      },
      ThrowsMessage<Error>(HasSubstr("two parameters are called 'w'")));
  EXPECT_THAT([] { AdamW({}, {{"w", -3, true}}); }, ThrowsMessage<Error>(HasSubstr("'w' has -3 elements")));
}

TEST(AdamW, BadStepsAreSentencesAndChangeNothing) {
  AdamW adamw({}, {{"a", 3, true}, {"b", 2, false}});
  Floats a(3, 1), b(2, 1), four(4);
  const Floats d_a(3, 1), d_b(2, 1);
  const auto step = [&](std::vector<Parameter> parameters, float lr = kLr, float scale = 1) {
    return [&adamw, parameters, lr, scale] { adamw.step(parameters, lr, scale); };
  };
  const Parameter good_a{"a", a, d_a}, good_b{"b", b, d_b};
  EXPECT_THAT(step({good_a}), ThrowsMessage<Error>(HasSubstr("'b' is missing")));
  EXPECT_THAT(step({good_a, good_b, {"c", b, d_b}}), ThrowsMessage<Error>(HasSubstr("no parameter 'c'")));
  EXPECT_THAT(step({good_a, good_a, good_b}), ThrowsMessage<Error>(HasSubstr("'a' is given twice")));
  EXPECT_THAT(step({good_a, {"b", four, d_b}}), ThrowsMessage<Error>(HasSubstr("'b' has 4 elements")));
  EXPECT_THAT(step({good_a, {"b", b, d_a}}), ThrowsMessage<Error>(HasSubstr("gradient of 'b' has 3 elements")));
  EXPECT_THAT(step({good_a, good_b}, -1), ThrowsMessage<Error>(HasSubstr("learning rate is -1")));
  EXPECT_THAT(step({good_a, good_b}, kLr, std::numeric_limits<float>::infinity()),
              ThrowsMessage<Error>(HasSubstr("scale is inf")));
  EXPECT_EQ(a, Floats(3, 1));
  EXPECT_EQ(b, Floats(2, 1));
  EXPECT_EQ(adamw.steps(), 0);
  EXPECT_THAT([&] { adamw.moments("z"); }, ThrowsMessage<Error>(HasSubstr("no parameter 'z'")));
  EXPECT_THAT([&] { adamw.set_steps(-1); }, ThrowsMessage<Error>(HasSubstr("step count is -1")));
}

}  // namespace
}  // namespace tessera::optim
