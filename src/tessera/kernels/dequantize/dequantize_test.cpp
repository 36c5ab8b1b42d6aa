#include "tessera/kernels/dequantize/dequantize.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tessera/base/int4.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using testing::for_each_simd_target;

struct Input {
  std::int64_t rows, cols, stride;
  std::vector<std::int8_t> codes;
  std::vector<std::uint8_t> packed;
  std::vector<float> scales;
};

Input make_input(std::int64_t rows, std::int64_t cols, int limit) {
  Input in{rows, cols, cols + 5, {}, {}, {}};
  in.codes = tessera::testing::random_codes(static_cast<std::size_t>(rows * in.stride), limit, 41);
  in.packed.resize(static_cast<std::size_t>(rows * int4_bytes(cols)));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      int4_set(in.packed.data() + r * int4_bytes(cols), c, in.codes[static_cast<std::size_t>(r * in.stride + c)]);
  in.scales = tessera::testing::extreme_values(static_cast<std::size_t>(rows), 42);
  return in;
}

// Bytes of y, with its gaps.
template <typename Run>
std::vector<std::uint8_t> result(const Input& in, bool packed, FloatType type, Run&& run) {
  std::vector<std::uint8_t> y(static_cast<std::size_t>(in.rows * (in.cols + 2) * bytes_of(type)), 0xee);
  DequantizeParams p;
  p.rows = in.rows, p.cols = in.cols, p.scales = in.scales.data();
  if (packed) p.int4_packed = in.packed.data();
  if (!packed) p.codes = in.codes.data(), p.code_stride = in.stride;
  p.y = {y.data(), type, in.cols + 2};
  run(p);
  return y;
}

void expect_targets_equal_reference(const Input& in, bool packed) {
  SCOPED_TRACE(::testing::Message() << in.rows << " x " << in.cols << (packed ? " packed" : ""));
  for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
    const auto expected =
        result(in, packed, type, [](const DequantizeParams& p) { dequantize_reference(p, 0, p.rows); });
    for_each_simd_target([&](IsaSet isa) {
      EXPECT_EQ(result(in, packed, type, [&](const DequantizeParams& p) { dequantize(p, isa); }), expected);
    });
  }
}

TEST(Dequantize, TargetsEqualReference) {
  for (std::int64_t cols : tessera::testing::kLengths) {
    expect_targets_equal_reference(make_input(3, cols, 127), /*packed=*/false);
    expect_targets_equal_reference(make_input(3, cols, 7), /*packed=*/true);
  }
  expect_targets_equal_reference(make_input(0, 16, 7), /*packed=*/true);
  expect_targets_equal_reference(make_input(1, 1031, 7), /*packed=*/true);
}

TEST(Dequantize, PackedEqualsOnePerByte) {
  const Input in = make_input(5, 77, 7);
  const auto run = [](const DequantizeParams& p) { dequantize(p); };
  EXPECT_EQ(result(in, true, FloatType::kF32, run), result(in, false, FloatType::kF32, run));
}

TEST(Dequantize, NotFiniteScaleShowsInTheWholeRow) {
  const std::vector<std::uint8_t> packed(8, 0);
  const float scale = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> y(16, 0.0f);
  DequantizeParams p;
  p.rows = 1, p.cols = 16, p.int4_packed = packed.data(), p.scales = &scale;
  p.y = {y.data(), FloatType::kF32, 16};
  dequantize(p);
  for (float v : y) EXPECT_NE(v, v);
}

TEST(Dequantize, ThreadsDoNotMatter) {
  const Input in = make_input(301, 130, 7);
  const auto run = [](const DequantizeParams& p) { dequantize(p); };
  const auto one = result(in, true, FloatType::kBf16, run);
  tessera::testing::ThreadBackend backend(3);
  EXPECT_EQ(result(in, true, FloatType::kBf16, run), one);
}

}  // namespace
}  // namespace tessera::kernels
