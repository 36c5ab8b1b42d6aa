// bgemm against products in f64, its operands against plain loops, threads against each other.
#include "tessera/kernels/bgemm/bgemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tessera/base/aligned_buffer.h"
#include "tessera/base/math.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using tessera::testing::ThreadBackend;

struct Shape {
  std::int64_t m, n, k;
};

std::vector<float> random_floats(std::int64_t size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& v : values) v = normal(random);
  return values;
}

AlignedBuffer<std::uint16_t> rows_of(const std::vector<float>& x, std::int64_t rows, std::int64_t cols) {
  AlignedBuffer<std::uint16_t> out(static_cast<std::size_t>(rows * round_up(cols, kBgemmDepth)));
  Bf16RowsParams p;
  p.rows = rows;
  p.cols = cols;
  p.x = {x.data(), FloatType::kF32, cols};
  p.as_rows = out.data();
  p.row_stride = round_up(cols, kBgemmDepth);
  bf16_rows(p);
  return out;
}

float rounded(float x) { return from_bf16(to_bf16(x)); }

struct Product {
  Shape s;
  std::vector<float> a, b, bias;
  AlignedBuffer<std::uint16_t> a_rows, b_source;
  AlignedBuffer<std::int8_t> panels;

  Product(Shape shape, bool transposed, std::uint32_t seed)
      : s(shape),
        a(random_floats(s.m * s.k, seed)),
        b(random_floats(s.n * s.k, seed + 1)),
        bias(random_floats(s.n, seed + 2)),
        a_rows(rows_of(a, s.m, s.k)),
        b_source(static_cast<std::size_t>(s.n * s.k)),
        panels(static_cast<std::size_t>(bgemm_packed_b_bytes(s.n, s.k))) {
    for (std::int64_t n = 0; n < s.n; ++n)
      for (std::int64_t k = 0; k < s.k; ++k)
        b_source.data()[transposed ? k * s.n + n : n * s.k + k] = to_bf16(b[static_cast<std::size_t>(n * s.k + k)]);
    bgemm_pack_b(b_source.data(), transposed ? s.n : s.k, transposed, s.n, s.k, panels.data());
  }

  std::vector<float> run(bool accumulate) {
    std::vector<float> out(static_cast<std::size_t>(s.m * s.n), 1.0f);
    BgemmParams p;
    p.m = s.m;
    p.n = s.n;
    p.k = s.k;
    p.a = a_rows.data();
    p.a_stride = round_up(s.k, kBgemmDepth);
    p.panels = panels.data();
    p.out = {out.data(), FloatType::kF32, s.n};
    p.bias = bias.data();
    p.accumulate = accumulate;
    bgemm(p);
    return out;
  }

  // k products summed in f32, whatever the order: |error| <= (k + 2) 2^-24 sum |a b|, plus two roundings of the end.
  void expect_close(const std::vector<float>& out, float start) const {
    for (std::int64_t m = 0; m < s.m; ++m)
      for (std::int64_t n = 0; n < s.n; ++n) {
        double sum = 0, magnitude = 0;
        for (std::int64_t k = 0; k < s.k; ++k) {
          const double term = static_cast<double>(rounded(a[static_cast<std::size_t>(m * s.k + k)])) *
                              rounded(b[static_cast<std::size_t>(n * s.k + k)]);
          sum += term;
          magnitude += std::abs(term);
        }
        const double end = std::abs(static_cast<double>(bias[static_cast<std::size_t>(n)])) + std::abs(start);
        sum += static_cast<double>(bias[static_cast<std::size_t>(n)]) + static_cast<double>(start);
        const double bound = std::ldexp((static_cast<double>(s.k) + 2) * magnitude + 3 * (magnitude + end), -24);
        ASSERT_NEAR(out[static_cast<std::size_t>(m * s.n + n)], sum, bound)
            << s.m << "x" << s.n << "x" << s.k << " at " << m << "," << n;
      }
  }
};

TEST(Bgemm, EqualsTheProductInF64) {
  if (!bgemm_available()) GTEST_SKIP() << "this CPU has no bf16 products";
  std::uint32_t seed = 1;
  for (Shape s :
       {Shape{1, 1, 1}, {1, 17, 33}, {12, 32, 64}, {13, 33, 65}, {97, 67, 131}, {40, 16, 1031}, {5, 300, 0}, {0, 3, 3}})
    for (bool transposed : {false, true})
      for (bool accumulate : {false, true}) {
        Product product(s, transposed, seed += 3);
        ASSERT_NO_FATAL_FAILURE(product.expect_close(product.run(accumulate), accumulate ? 1.0f : 0.0f));
      }
}

TEST(Bgemm, ThreadsDoNotChangeBits) {
  if (!bgemm_available()) GTEST_SKIP() << "this CPU has no bf16 products";
  for (Shape s : {Shape{300, 100, 700}, {67, 530, 2100}, {3, 700, 90}}) {
    Product product(s, true, 5);
    std::vector<float> out[2];
    for (int threads = 1; threads <= 2; ++threads) {
      const ThreadBackend scope(threads);
      out[threads - 1] = product.run(false);
    }
    EXPECT_EQ(std::memcmp(out[0].data(), out[1].data(), out[0].size() * 4), 0) << s.m;
  }
}

TEST(Bf16Rows, EqualPlainLoopsBothWays) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 63}, {32, 64}, {33, 65}, {70, 200}, {0, 5}}) {
    const std::vector<float> x = random_floats(rows * cols, 3);
    std::vector<std::uint16_t> rounded_x(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) rounded_x[i] = to_bf16(x[i]);
    for (FloatType type : {FloatType::kF32, FloatType::kBf16})
      for (int which = 1; which <= 3; ++which) {
        const std::int64_t row_stride = round_up(cols, kBgemmDepth), column_stride = round_up(rows, kBgemmDepth);
        std::vector<std::uint16_t> out[2][2];
        for (int reference = 0; reference < 2; ++reference) {
          out[reference][0].assign(static_cast<std::size_t>(rows * row_stride), 0x1234);
          out[reference][1].assign(static_cast<std::size_t>(cols * column_stride), 0x1234);
          Bf16RowsParams p;
          p.rows = rows;
          p.cols = cols;
          p.x = {type == FloatType::kF32 ? static_cast<const void*>(x.data()) : rounded_x.data(), type, cols};
          p.row_stride = row_stride;
          p.column_stride = column_stride;
          if (which & 1) p.as_rows = out[reference][0].data();
          if (which & 2) p.as_columns = out[reference][1].data();
          if (reference == 1) {
            bf16_rows_reference(p, 0, div_ceil<std::int64_t>((which & 1) ? row_stride : cols, 64));
          } else {
            bf16_rows(p);
          }
        }
        EXPECT_EQ(out[0][0], out[1][0]) << rows << "x" << cols << " " << which;
        EXPECT_EQ(out[0][1], out[1][1]) << rows << "x" << cols << " " << which;
      }
  }
}

}  // namespace
}  // namespace tessera::kernels
