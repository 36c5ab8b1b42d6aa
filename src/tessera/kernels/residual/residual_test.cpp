#include "tessera/kernels/residual/residual.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tessera/base/testing/float_matrix.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using testing::for_each_simd_target;

// Bits of out, one element beyond the end included; NaN's payload is not promised, so NaN is made one.
std::vector<std::uint32_t> result(std::int64_t n, FloatType type, const std::vector<float>& values, IsaSet isa) {
  const auto size = static_cast<std::size_t>(n);
  std::vector<std::uint16_t> narrow;
  for (std::size_t i = 0; i < size; ++i) narrow.push_back(to_bf16(values[size + i]));
  std::vector<float> out(size + 1, 7.0f);
  const void* y = type == FloatType::kF32 ? static_cast<const void*>(values.data() + size) : narrow.data();
  residual({.n = n, .x = values.data(), .y = y, .type = type, .out = out.data()}, isa);
  std::vector<std::uint32_t> bits(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] != out[i]) out[i] = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(&bits[i], &out[i], 4);
  }
  return bits;
}

TEST(Residual, TargetsEqualReferenceOnEveryLength) {
  for (const FloatType type : {FloatType::kF32, FloatType::kBf16})
    for (const std::int64_t n : tessera::testing::kLengths)
      for (const auto& values : {tessera::testing::normal_values(static_cast<std::size_t>(2 * n), 1),
                                 tessera::testing::extreme_values(static_cast<std::size_t>(2 * n), 2)}) {
        const auto expected = result(n, type, values, IsaSet{});
        for_each_simd_target([&](IsaSet isa) { EXPECT_EQ(result(n, type, values, isa), expected) << n; });
      }
}

TEST(Residual, IsTheSumInPlaceAndForEveryThreadCount) {
  constexpr std::size_t kSize = 3 * 16384 + 5;
  const std::vector<float> x = tessera::testing::normal_values(kSize, 3), y = tessera::testing::normal_values(kSize, 4);
  for (const int threads : {1, 2, 3}) {
    tessera::testing::ThreadBackend backend(threads);
    std::vector<float> out = x;
    residual({.n = kSize, .x = out.data(), .y = y.data(), .out = out.data()});
    for (std::size_t i = 0; i < kSize; ++i) ASSERT_EQ(out[i], x[i] + y[i]) << i;
  }
}

}  // namespace
}  // namespace tessera::kernels
