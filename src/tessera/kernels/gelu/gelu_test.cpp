#include "tessera/kernels/gelu/gelu.h"

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
using Halves = std::vector<std::uint16_t>;

template <typename T>
GeluParams params(const std::vector<T>& x, const std::vector<T>* dy, std::vector<T>& out) {
  GeluParams p;
  p.n = static_cast<std::int64_t>(x.size());
  p.type = sizeof(T) == 4 ? FloatType::kF32 : FloatType::kBf16;
  p.x = x.data(), p.dy = dy == nullptr ? nullptr : dy->data(), p.out = out.data();
  return p;
}

Halves narrow(const Floats& x) {
  Halves y;
  for (float v : x) y.push_back(to_bf16(v));
  return y;
}

TEST(Gelu, TargetsEqualReferenceOnEveryLength) {
  std::vector<std::int64_t> lengths(tessera::testing::kLengths.begin(), tessera::testing::kLengths.end());
  lengths.insert(lengths.end(), {16384, 16387, 3 * 16384 + 37});
  for (std::int64_t length : lengths) {
    const auto n = static_cast<std::size_t>(length);
    Floats x = tessera::testing::extreme_values(n, 1);
    const Floats normal = tessera::testing::normal_values(n, 2), dy = tessera::testing::normal_values(n, 3);
    for (std::size_t i = 0; i < n; i += 2) x[i] = 4 * normal[i];
    const Halves x16 = narrow(x), dy16 = narrow(dy);
    for (bool backward : {false, true}) {
      Floats want(n, -1);
      Halves want16(n, 1);
      gelu_reference(params(x, backward ? &dy : nullptr, want), 0, length);
      gelu_reference(params(x16, backward ? &dy16 : nullptr, want16), 0, length);
      for_each_simd_target([&](IsaSet isa) {
        Floats got(n, -2);
        Halves got16(n, 2);
        gelu(params(x, backward ? &dy : nullptr, got), isa);
        gelu(params(x16, backward ? &dy16 : nullptr, got16), isa);
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_TRUE(same_float(got[i], want[i])) << x[i] << " of " << n << " backward " << backward;
          ASSERT_TRUE(same_float(from_bf16(got16[i]), from_bf16(want16[i]))) << x[i] << " of " << n;
        }
      });
    }
  }
}

// In units of u = 2^-24: z has a relative error of 5 (its terms have one sign), so exp(-|z|) one of 5 |z| + 2; it enters
// s once or twice, with 4 roundings besides, and s (1 - s) three times, with 6; x z' and the last sum add fewer than 10.
TEST(Gelu, IsTheFormulaInDouble) {
  Floats x;
  for (int i = -1300; i <= 1300; ++i) x.push_back(static_cast<float>(i) * 0.01f);
  x.insert(x.end(), {1e-30f, -1e-30f, 100.0f, -100.0f, 1e30f, -1e30f});
  const Floats dy(x.size(), 1.0f);
  Floats y(x.size()), dx(x.size());
  gelu(params(x, static_cast<const Floats*>(nullptr), y));
  gelu(params(x, &dy, dx));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = static_cast<double>(x[i]), k = 2 * std::sqrt(2 / std::acos(-1.0)), u = 0x1p-24;
    const double z = k * (v + 0.044715 * v * v * v), e = std::exp(-std::abs(z)), s = z < 0 ? e / (1 + e) : 1 / (1 + e);
    const double w = e == 0 ? 0 : v * (e / ((1 + e) * (1 + e))) * k * (1 + 3 * 0.044715 * v * v);
    const double relative = std::isfinite(z) && std::abs(z) < 90 ? 5 * std::abs(z) + 2 : 0, flushed = 1e-30;
    EXPECT_NEAR(static_cast<double>(y[i]), v * s, std::abs(v * s) * (2 * relative + 8) * u + flushed) << v;
    EXPECT_NEAR(static_cast<double>(dx[i]), s + w,
                (s * (2 * relative + 8) + std::abs(w) * (3 * relative + 18) + s + std::abs(w)) * u + flushed)
        << v;
  }
}

TEST(Gelu, NotFiniteValuesShow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Floats x = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity}, dy(3, 1.0f);
  for_each_simd_target([&](IsaSet isa) {
    Floats y(3), dx(3);
    gelu(params(x, static_cast<const Floats*>(nullptr), y), isa);
    gelu(params(x, &dy, dx), isa);
    EXPECT_TRUE(std::isnan(y[0]) && y[1] == kInfinity && std::isnan(y[2]));
    for (float v : dx) EXPECT_TRUE(std::isnan(v));
  });
}

TEST(Gelu, InPlaceAndThreadsDoNotMatter) {
  const Floats x = tessera::testing::normal_values(5 * 16384 + 3, 4), dy = tessera::testing::normal_values(x.size(), 5);
  Floats want(x.size()), in_place = dy;
  gelu_reference(params(x, &dy, want), 0, static_cast<std::int64_t>(x.size()));
  const tessera::testing::ThreadBackend threads(3);
  gelu(params(x, &in_place, in_place));
  EXPECT_EQ(in_place, want);
}

}  // namespace
}  // namespace tessera::kernels
