// Every row of the table against INT64 products and the scalar epilogue, bit for bit.
#include "tessera/kernels/igemm/igemm.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <iostream>
#include <limits>
#include <set>

#include "tessera/base/testing/guard_page.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/igemm/igemm_test_kit.h"

namespace tessera::kernels {
namespace {

using tessera::testing::GuardedArray;
using tessera::testing::ThreadBackend;
using testing::Problem;
using testing::Shape;

std::set<std::string>& covered() {
  static std::set<std::string> names;
  return names;
}

class PrintCovered : public ::testing::Environment {
  void TearDown() override {
    std::cout << "Covered ISAs:";
    for (const std::string& name : covered()) std::cout << ' ' << name;
    std::cout << std::endl;
  }
};
const auto* const kPrintCovered = ::testing::AddGlobalTestEnvironment(new PrintCovered);

class IgemmTest : public ::testing::TestWithParam<IgemmKernel> {
 protected:
  void SetUp() override {
    if (!detected_isa().has(GetParam().level)) GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam().level);
    covered().insert(std::string(isa_name(GetParam().level)));
  }

  void expect_exact(Problem& problem, Shape s) {
    std::vector<std::int32_t> acc(static_cast<std::size_t>(s.m * s.n), -1);
    IgemmParams p = problem.params();
    p.acc_out = acc.data();
    p.out.stride = s.n;
    GetParam().run(p);
    for (std::int64_t m = 0; m < s.m; ++m)
      for (std::int64_t n = 0; n < s.n; ++n)
        ASSERT_EQ(acc[static_cast<std::size_t>(m * s.n + n)], problem.product(m, n))
            << testing::describe(s) << " at " << m << "," << n;
  }

  // The widest codes that the kernel takes.
  int a_limit() const { return GetParam().narrow ? 98 : 127; }
  int b_limit() const { return GetParam().narrow ? 29 : 127; }
};

TEST_P(IgemmTest, SmallShapesAreExact) {
  for (std::int64_t m = 0; m <= 10; ++m)
    for (std::int64_t n = 0; n <= 10; ++n)
      for (std::int64_t k = 0; k <= 10; ++k) {
        Problem problem({m, n, k}, 98, 7, static_cast<std::uint32_t>(m * 121 + n * 11 + k));
        ASSERT_NO_FATAL_FAILURE(expect_exact(problem, {m, n, k}));
      }
}

TEST_P(IgemmTest, ShapesAroundPowersOfTwoAreExact) {
  const std::int64_t sizes[] = {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129};
  std::uint32_t seed = 1;
  for (std::int64_t m : sizes)
    for (std::int64_t n : sizes)
      for (std::int64_t k : sizes) {
        Problem problem({m, n, k}, a_limit(), b_limit(), ++seed);
        ASSERT_NO_FATAL_FAILURE(expect_exact(problem, {m, n, k}));
      }
}

TEST_P(IgemmTest, DeepNarrowAndPrimeShapesAreExact) {
  const Shape shapes[] = {{1, 1, 32767},  {3, 5, 20011},  {67, 300, 8209}, {33, 35, 4096}, {97, 37, 1151},
                          {1, 2053, 97},  {2053, 1, 97},  {97, 101, 103},  {13, 97, 1009}, {251, 17, 263},
                          {1031, 67, 61}, {37, 521, 641}, {29, 600, 9000}};
  std::uint32_t seed = 7;
  for (Shape s : shapes) {
    Problem problem(s, 98, 7, ++seed);
    ASSERT_NO_FATAL_FAILURE(expect_exact(problem, s));
  }
}

TEST_P(IgemmTest, ExtremeCodesAreExact) {
  const int limits[][2] = {{7, 7}, {98, 7}, {7, 98}, {63, 63}, {64, 63}, {127, 127}};
  for (const auto& limit : limits)
    for (Shape s : {Shape{33, 35, 191}, Shape{83, 35, 448}, Shape{2, 3, 16640}, Shape{41, 3, 16640}}) {
      if (!GetParam().takes(limit[0], limit[1])) continue;
      Problem problem(s, limit[0], limit[1], 3, /*extreme=*/true);
      ASSERT_NO_FATAL_FAILURE(expect_exact(problem, s));
    }
}

TEST_P(IgemmTest, LargestDepthDoesNotOverflow) {
  if (GetParam().narrow) GTEST_SKIP() << "takes no codes of 127";
  const Shape s{1, 1, 133'120};
  Problem problem(s, 127, 127, 1);
  std::memset(const_cast<std::int8_t*>(problem.a().data()), 127, static_cast<std::size_t>(s.k));
  std::memset(problem.packed().panels, 0, static_cast<std::size_t>(igemm_packed_b_bytes(1, s.k)));
  for (std::int64_t k = 0; k < s.k; ++k) problem.packed().panels[k / 4 * 64 + k % 4] = 127;
  std::int32_t acc = 0;
  IgemmParams p = problem.params();
  p.acc_out = &acc;
  p.out.stride = 1;
  GetParam().run(p);
  EXPECT_EQ(acc, s.k * 127 * 127);
}

/// Scales and bias of one case; empty means null.
struct Epilogue {
  std::vector<float> row_scale, col_scale, bias;
  FloatType type = FloatType::kF32;
  bool accumulate = false;

  float value(std::int64_t acc, std::int64_t m, std::int64_t n) const {
    float y = static_cast<float>(static_cast<std::int32_t>(acc));
    if (!row_scale.empty()) y *= row_scale[static_cast<std::size_t>(m)];
    if (!col_scale.empty()) y *= col_scale[static_cast<std::size_t>(n)];
    if (!bias.empty()) y += bias[static_cast<std::size_t>(n)];
    return y;
  }
};

std::vector<float> random_floats(std::int64_t size, std::uint32_t seed, float magnitude) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, magnitude);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& v : values) v = normal(random);
  return values;
}

GuardedArray<float> guarded(const std::vector<float>& values) {
  GuardedArray<float> array(values.size());
  std::copy(values.begin(), values.end(), array.begin());
  return array;
}

/// Multiply with every operand flush against a guard page and compare with the scalar epilogue. Between rows of the
/// output lie `gap` elements that must stay as they were.
void expect_epilogue(Shape s, const Epilogue& e, const IgemmKernel& kernel, std::int64_t gap) {
  Problem problem(s, 98, 7, static_cast<std::uint32_t>(s.m + 3 * s.n + 7 * s.k));
  IgemmParams p = problem.params();
  GuardedArray<std::int8_t> a(problem.a().size()), panels(problem.panels().size());
  std::copy_n(problem.a().data(), a.size(), a.begin());
  std::copy_n(problem.panels().data(), panels.size(), panels.begin());
  const auto row_scale = guarded(e.row_scale), col_scale = guarded(e.col_scale), bias = guarded(e.bias);
  const std::int64_t stride = s.n + gap, elements = s.m == 0 ? 0 : (s.m - 1) * stride + s.n;
  const auto bytes = static_cast<std::size_t>(bytes_of(e.type));
  GuardedArray<std::uint8_t> out(static_cast<std::size_t>(elements) * bytes);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(i % 61);
  const std::vector<std::uint8_t> before(out.begin(), out.end());

  p.a = a.data();
  p.b.panels = panels.data();
  p.out = {out.data(), e.type, stride};
  p.row_scale = e.row_scale.empty() ? nullptr : row_scale.data();
  p.col_scale = e.col_scale.empty() ? nullptr : col_scale.data();
  p.bias = e.bias.empty() ? nullptr : bias.data();
  p.accumulate = e.accumulate;
  kernel.run(p);

  std::vector<std::uint8_t> expected = before;
  for (std::int64_t m = 0; m < s.m; ++m)
    for (std::int64_t n = 0; n < s.n; ++n) {
      std::uint8_t* at = expected.data() + static_cast<std::size_t>(m * stride + n) * bytes;
      float y = e.value(problem.product(m, n), m, n);
      float old = 0.0f;
      if (e.accumulate) std::memcpy(&old, at, 4);
      if (e.accumulate) y += old;
      const std::uint16_t half = to_bf16(y);
      e.type == FloatType::kBf16 ? std::memcpy(at, &half, 2) : std::memcpy(at, &y, 4);
    }
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out.begin())) << testing::describe(s);
}

TEST_P(IgemmTest, EpilogueBitsOverShapes) {
  for (std::int64_t m : {0, 1, 5, 12, 13, 16, 17, 32, 33, 45})
    for (std::int64_t n : {0, 1, 15, 16, 17, 31, 32, 33, 48, 49, 64, 65})
      for (std::int64_t k : {0, 1, 65}) {
        Epilogue e;
        e.row_scale = random_floats(m, 1, 0.1f);
        e.col_scale = random_floats(n, 2, 0.1f);
        e.bias = random_floats(n, 3, 1.0f);
        for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
          e.type = type;
          ASSERT_NO_FATAL_FAILURE(expect_epilogue({m, n, k}, e, GetParam(), /*gap=*/m % 3));
        }
        e.accumulate = true;
        e.type = FloatType::kF32;
        ASSERT_NO_FATAL_FAILURE(expect_epilogue({m, n, k}, e, GetParam(), /*gap=*/m % 3));
      }
}

TEST_P(IgemmTest, EpilogueBitsWithNullScalesAndBias) {
  const Shape s{37, 43, 70};
  for (int present = 0; present < 8; ++present)
    for (int kind = 0; kind < 3; ++kind) {
      Epilogue e;
      if (present & 1) e.row_scale = random_floats(s.m, 4, 0.1f);
      if (present & 2) e.col_scale = random_floats(s.n, 5, 0.1f);
      if (present & 4) e.bias = random_floats(s.n, 6, 1.0f);
      e.type = kind == 0 ? FloatType::kBf16 : FloatType::kF32;
      e.accumulate = kind == 2;
      ASSERT_NO_FATAL_FAILURE(expect_epilogue(s, e, GetParam(), /*gap=*/5)) << present << " " << kind;
    }
}

TEST_P(IgemmTest, EpilogueBitsOfSpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  const float tiny = std::numeric_limits<float>::denorm_min();
  const Shape s{7, 40, 64};
  Epilogue e;
  e.row_scale = {1.0f, -0.0f, nan, infinity, tiny, 1e38f, 1e-38f};
  for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
    e.type = type;
    ASSERT_NO_FATAL_FAILURE(expect_epilogue(s, e, GetParam(), /*gap=*/0));
  }
}

TEST_P(IgemmTest, StreamedOutputHasTheSameBits) {
  const Shape s{1037, 1056, 1};  // 2.2 MB of bf16, rows of 64-byte multiples
  Problem problem(s, 98, 7, 5);
  const std::vector<float> scale = random_floats(s.m, 1, 0.1f);
  for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
    const std::int64_t stride = s.n + 32;
    AlignedBuffer<std::uint8_t> out(static_cast<std::size_t>(s.m * stride * bytes_of(type)));
    IgemmParams p = problem.params();
    p.row_scale = scale.data();
    p.out = {out.data(), type, stride};
    GetParam().run(p);
    std::int64_t wrong = 0;
    for (std::int64_t m = 0; m < s.m; ++m)
      for (std::int64_t n = 0; n < s.n; ++n) {
        const float y = static_cast<float>(problem.product(m, n)) * scale[static_cast<std::size_t>(m)];
        const std::uint8_t* at = out.data() + (m * stride + n) * bytes_of(type);
        const std::uint16_t half = to_bf16(y);
        wrong += type == FloatType::kF32 ? std::memcmp(at, &y, 4) != 0 : std::memcmp(at, &half, 2) != 0;
      }
    EXPECT_EQ(wrong, 0);
  }
}

TEST_P(IgemmTest, ThreadsDoNotChangeBits) {
  for (Shape s :
       {Shape{1, 700, 130}, Shape{300, 100, 70}, Shape{431, 70, 1300}, Shape{65, 530, 8300}, Shape{700, 1, 1}}) {
    Problem problem(s, 98, 7, 11);
    const std::vector<float> scale = random_floats(s.n, 1, 0.1f);
    std::vector<float> out[2];
    for (int threads = 1; threads <= 2; ++threads) {
      const ThreadBackend scope(threads);
      out[threads - 1].assign(static_cast<std::size_t>(s.m * s.n), -1.0f);
      IgemmParams p = problem.params();
      p.col_scale = scale.data();
      p.out = {out[threads - 1].data(), FloatType::kF32, s.n};
      GetParam().run(p);
    }
    EXPECT_EQ(std::memcmp(out[0].data(), out[1].data(), out[0].size() * 4), 0) << testing::describe(s);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, IgemmTest, ::testing::ValuesIn(igemm_kernels().begin(), igemm_kernels().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tessera::kernels
