#include "tessera/kernels/unrotate/unrotate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
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
using testing::for_each_simd_target;

struct Case {
  std::int64_t rows, cols;
  std::int32_t block;
  bool masked, gelu;
  FloatType from, to;
};

// Bits of y after one call; `run` is the reference or a target.
template <typename Run>
std::vector<std::uint8_t> result(const Case& c, const FloatMatrix& t, const FloatMatrix& start,
                                 const std::vector<std::uint8_t>& mask, Run&& run) {
  const auto bytes = [](FloatMatrix& m, FloatType type) {
    return type == FloatType::kF32 ? reinterpret_cast<std::uint8_t*>(m.f32.data())
                                   : reinterpret_cast<std::uint8_t*>(m.bf16.data());
  };
  FloatMatrix in = t, out = start, x = start;
  UnrotateParams p;
  p.rows = c.rows, p.cols = c.cols, p.block = c.block;
  p.t = {bytes(in, c.from), c.from, c.cols + 3};
  p.y = {bytes(out, c.to), c.to, c.cols + 3};
  p.mask = c.masked ? mask.data() : nullptr;
  p.gelu_x = c.gelu ? bytes(x, c.to) : nullptr;
  run(p);
  const std::size_t size = static_cast<std::size_t>(c.rows * (c.cols + 3) * bytes_of(c.to));
  return {bytes(out, c.to), bytes(out, c.to) + size};  // gaps included: nobody may touch them
}

void expect_targets_equal_reference(std::int64_t rows, std::int64_t cols, std::int32_t block,
                                    const std::vector<float>& values) {
  SCOPED_TRACE(::testing::Message() << rows << " x " << cols << " block " << block);
  const auto n = static_cast<std::size_t>(rows * cols);
  const FloatMatrix t(values, rows, cols, cols + 3);
  const FloatMatrix start(tessera::testing::normal_values(n, 21), rows, cols, cols + 3);
  const auto mask = tessera::testing::random_bytes(static_cast<std::size_t>(rows * ((cols + 7) / 8)), 22);
  for (int variant = 0; variant < 16; ++variant) {
    const auto type = [&](int bit) { return (variant >> bit) & 1 ? FloatType::kBf16 : FloatType::kF32; };
    const Case c{rows, cols, block, (variant & 1) != 0, (variant & 2) != 0, type(2), type(3)};
    const auto expected = result(c, t, start, mask, [&](const UnrotateParams& p) { unrotate_reference(p, 0, p.rows); });
    for_each_simd_target([&](IsaSet isa) {
      EXPECT_EQ(result(c, t, start, mask, [&](const UnrotateParams& p) { unrotate(p, isa); }), expected);
    });
  }
}

TEST(Unrotate, TargetsEqualReferenceOnEveryLength) {
  for (std::int64_t cols : tessera::testing::kLengths)
    expect_targets_equal_reference(2, cols, 1,
                                   tessera::testing::extreme_values(static_cast<std::size_t>(2 * cols), 23));
}

TEST(Unrotate, TargetsEqualReferenceOnEveryBlock) {
  for (std::int32_t block : {16, 32, 64, 128, 256}) {
    for (std::int64_t blocks : {1, 3, 17}) {
      const auto n = static_cast<std::size_t>(3 * block * blocks);
      expect_targets_equal_reference(3, block * blocks, block, tessera::testing::normal_values(n, 24));
    }
  }
}

TEST(Unrotate, StoresBf16AsTypesSays) {  // every kind of f32: rounding ties, denormals, NaN, infinities
  std::vector<float> values(4096);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = tessera::testing::random_word(25, i);
    if (i % 4 == 1) bits = (bits & 0xffff0000u) | 0x8000u;  // a tie
    if (i % 4 == 2) bits &= 0x807fffffu;                    // a denormal
    if (i % 4 == 3) bits |= 0x7f800000u;                    // NaN or infinity
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
  for_each_simd_target([&](IsaSet isa) {
    std::vector<std::uint16_t> y(values.size());
    UnrotateParams p;
    p.rows = 1, p.cols = 4096, p.block = 1;
    p.t = {values.data(), FloatType::kF32, 4096}, p.y = {y.data(), FloatType::kBf16, 4096};
    unrotate(p, isa);
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], to_bf16(values[i])) << i;
  });
}

TEST(Unrotate, InPlaceEqualsOutOfPlace) {
  const std::vector<float> values = tessera::testing::normal_values(5 * 384, 26);
  const auto mask = tessera::testing::random_bytes(5 * 48, 27);
  std::vector<float> out(values.size()), in_place = values;
  UnrotateParams p;
  p.rows = 5, p.cols = 384, p.block = 128, p.mask = mask.data();
  p.t = {values.data(), FloatType::kF32, 384}, p.y = {out.data(), FloatType::kF32, 384};
  unrotate(p);
  p.t = {in_place.data(), FloatType::kF32, 384}, p.y = {in_place.data(), FloatType::kF32, 384};
  unrotate(p);
  EXPECT_EQ(in_place, out);
}

TEST(Unrotate, TwiceIsTheIdentityAndKeepsNorms) {  // spec T3
  for (std::int32_t block : {16, 32, 64, 128, 256}) {
    const std::vector<float> x = tessera::testing::normal_values(512, 28);
    std::vector<float> once(512), twice(512);
    UnrotateParams p;
    p.rows = 1, p.cols = 512, p.block = block;
    p.t = {x.data(), FloatType::kF32, 512}, p.y = {once.data(), FloatType::kF32, 512};
    unrotate(p);
    p.t = {once.data(), FloatType::kF32, 512}, p.y = {twice.data(), FloatType::kF32, 512};
    unrotate(p);
    double error = 0, norm = 0, norm_once = 0;
    for (std::size_t i = 0; i < 512; ++i) {
      error += std::pow(static_cast<double>(twice[i]) - x[i], 2);
      norm += std::pow(static_cast<double>(x[i]), 2);
      norm_once += std::pow(static_cast<double>(once[i]), 2);
    }
    EXPECT_LE(std::sqrt(error / norm), 1e-6) << block;
    EXPECT_NEAR(std::sqrt(norm_once / norm), 1.0, 1e-6) << block;
  }
}

TEST(Unrotate, FastTransformIsTheDenseOne) {  // spec T3
  for (std::int32_t block : {16, 32, 64, 128, 256}) {
    const auto b = static_cast<std::size_t>(block);
    const std::vector<float> x = tessera::testing::normal_values(b, 29);
    std::vector<float> y(b);
    UnrotateParams p;
    p.rows = 1, p.cols = block, p.block = block;
    p.t = {x.data(), FloatType::kF32, block}, p.y = {y.data(), FloatType::kF32, block};
    unrotate(p);
    double magnitude = 0;
    for (float v : x) magnitude += std::abs(static_cast<double>(v));
    for (std::size_t j = 0; j < b; ++j) {
      double dense = 0;
      for (std::size_t i = 0; i < b; ++i) dense += (__builtin_popcountll(i & j) % 2 ? -1.0 : 1.0) * x[i];
      // One rounding per stage and element on the path, two for the factor and the product.
      const double roundings = std::log2(block) + 2;
      const double bound = tessera::testing::error_bound(roundings, tessera::testing::kEpsF32, magnitude);
      EXPECT_NEAR(y[j], dense / std::sqrt(block), bound / std::sqrt(block)) << block << " " << j;
    }
  }
}

TEST(Unrotate, MaskComesBeforeTheRotation) {  // spec T8
  const std::vector<float> x = tessera::testing::normal_values(16, 30);
  const std::vector<std::uint8_t> mask = {0x0f, 0xf3}, all = {0xff, 0xff};
  std::vector<float> masked_first(16), swapped(16);
  UnrotateParams p;
  p.rows = 1, p.cols = 16, p.block = 16, p.mask = mask.data();
  p.t = {x.data(), FloatType::kF32, 16}, p.y = {masked_first.data(), FloatType::kF32, 16};
  unrotate(p);
  p.mask = all.data(), p.y.data = swapped.data();
  unrotate(p);
  for (std::size_t i = 0; i < 16; ++i)
    if (!((mask[i / 8] >> (i % 8)) & 1)) swapped[i] = 0;
  EXPECT_NE(masked_first, swapped);
}

TEST(Unrotate, ThreadsDoNotMatter) {  // spec T15
  const std::vector<float> x = tessera::testing::normal_values(131 * 256, 31);
  std::vector<float> one(x.size()), several(x.size());
  UnrotateParams p;
  p.rows = 131, p.cols = 256, p.block = 64;
  p.t = {x.data(), FloatType::kF32, 256}, p.y = {one.data(), FloatType::kF32, 256};
  unrotate(p);
  p.y.data = several.data();
  tessera::testing::ThreadBackend backend(3);
  unrotate(p);
  EXPECT_EQ(several, one);
}

}  // namespace
}  // namespace tessera::kernels
