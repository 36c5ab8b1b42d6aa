#include "tessera/quant/codes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tessera/base/int4.h"
#include "tessera/quant/dense_matmul.h"

namespace tessera::quant {
namespace {

using torch::Tensor;

Tensor integers(const RowCodes& codes) { return codes.codes.narrow(1, 0, codes.cols).to(torch::kLong); }
Tensor integers(const Int4Codes& codes) {
  Tensor out = torch::empty({codes.rows, codes.cols}, torch::kLong);
  for (std::int64_t r = 0; r < codes.rows; ++r)
    for (std::int64_t c = 0; c < codes.cols; ++c)
      out[r][c] = int4_get(codes.packed.const_data_ptr<std::uint8_t>() + r * codes.packed.stride(0), c);
  return out;
}
RowCodes with_unit_scales(RowCodes codes) {
  codes.scales = torch::ones_like(codes.scales);
  return codes;
}

// The three product forms, exact: sums below 2^24 come out of the fp32 epilogue unrounded.
TEST(IntMatmul, EqualsIntegerProductExactly) {
  torch::manual_seed(1);
  for (const auto& [m, n, k] : {std::tuple{1, 1, 16}, {3, 5, 16}, {33, 17, 48}, {64, 130, 96}, {7, 64, 256}}) {
    const Tensor x = torch::randn({m, k}), w = torch::randn({n, k});
    const auto rows = rotate_rows(x, {.block = 16, .int4_packed = true, .int4_left = true, .absmax_limit = 98});
    const auto seven_bits = rotate_rows(x, {.block = 16, .absmax_limit = 63}).absmax;
    const auto weight = rotate_rows(w, {.block = 16, .int4_packed = true}).int4;
    ASSERT_TRUE(torch::equal(integers(rows.int4), integers(rows.int4_left)));
    for (const RowCodes& left : {with_unit_scales(rows.int4_left), with_unit_scales(rows.absmax)}) {
      const Tensor y = int_matmul(left, pack_panels(weight, false), {}, {}, torch::kFloat);
      EXPECT_TRUE(torch::equal(y.to(torch::kLong), integers(left).matmul(integers(weight).t())));
    }
    // dX's form: contract over the rows of the same packed codes.
    const Tensor dy = torch::randn({m, n});
    const auto folded = fold_quantize(dy, {.rounding = Rounding::kNearestEven, .rows = true, .columns = true});
    const Tensor dx = int_matmul(with_unit_scales(folded.rows), pack_panels(weight, true), {}, {}, torch::kFloat);
    EXPECT_TRUE(torch::equal(dx.to(torch::kLong), integers(folded.rows).matmul(integers(weight))));
    // dW's form, accumulated twice.
    Tensor dw = torch::zeros({n, k});
    for (int i = 0; i < 2; ++i) int_matmul_add(with_unit_scales(folded.columns), pack_panels(rows.int4, true), dw);
    EXPECT_TRUE(torch::equal(dw.to(torch::kLong), 2 * integers(folded.columns).matmul(integers(rows.int4))));
    // The same from codes that are kept one per byte.
    dw.zero_();
    int_matmul_add(with_unit_scales(folded.columns), pack_panels(seven_bits, true), dw);
    EXPECT_TRUE(torch::equal(dw.to(torch::kLong), integers(folded.columns).matmul(integers(seven_bits))));
  }
}

// Kernels choose by the limits: they must bound the codes, tightly.
TEST(Codes, KnowTheirLimit) {
  torch::manual_seed(4);
  const Tensor x = torch::randn({9, 64});
  const auto expect_limit = [](const RowCodes& codes, int limit) {
    EXPECT_EQ(codes.limit, limit);
    EXPECT_EQ(integers(codes).abs().max().item<int>(), limit);
    for (const bool transposed : {false, true}) EXPECT_EQ(pack_panels(codes, transposed).limit, limit);
  };
  for (const std::int32_t limit : {63, 98, 127}) {
    expect_limit(rotate_rows(x, {.block = 16, .absmax_limit = limit}).absmax, limit);
    const auto folded = fold_quantize(x, {.limit = limit, .rows = true, .columns = true});
    expect_limit(folded.rows, limit);
    expect_limit(folded.columns, limit);
  }
  const auto rotated = rotate_rows(4 * torch::eye(64), {.block = 1, .int4_packed = true, .int4_left = true});
  expect_limit(rotated.int4_left, 7);
  for (const bool transposed : {false, true}) EXPECT_EQ(pack_panels(rotated.int4, transposed).limit, 7);
}

// The deepest sum of each pair of codes is exact, and one term more is refused.
TEST(IntMatmul, ReachesAsFarAsInt32) {
  for (const auto& [limit, terms] :
       {std::pair<std::int32_t, std::int64_t>{127, 133'144}, {98, 223'603}, {63, 541'064}}) {
    const auto codes = [limit = limit](std::int64_t cols) {
      return with_unit_scales(rotate_rows(torch::ones({1, cols}), {.block = 1, .absmax_limit = limit}).absmax);
    };
    const auto product = [](const RowCodes& a) {
      return int_matmul(a, pack_panels(a, false), {}, {}, torch::kFloat).item<float>();
    };
    EXPECT_EQ(product(codes(terms)), static_cast<float>(terms * limit * limit));
    try {
      product(codes(terms + 1));
      ADD_FAILURE() << limit;
    } catch (const c10::ValueError& error) {
      EXPECT_NE(std::string(error.what())
                    .find(fmt::format("contracts over {} terms, more than the {} for which codes "
                                      "up to {} and {} fit INT32",
                                      terms + 1, terms, limit, limit)),
                std::string::npos)
          << error.what();
    }
  }
}

// T6: the product of a bit-split operand is that of its two INT4 planes, combined in integers.
TEST(IntMatmul, FusedSplitEqualsTwoPlanes) {
  torch::manual_seed(3);
  const Tensor dy = torch::randn({37, 96}), w = torch::randn({45, 96});
  const RowCodes q = with_unit_scales(fold_quantize(dy, {.key = {1, 2}, .noise = {3, 4, 5}, .rows = true}).rows);
  const Panels panels = pack_panels(rotate_rows(w, {.block = 32, .int4_packed = true}).int4, false);
  RowCodes high = q, low = q;
  high.codes = torch::zeros_like(q.codes);
  low.codes = torch::zeros_like(q.codes);
  const auto from = q.codes.accessor<std::int8_t, 2>();
  auto to_high = high.codes.accessor<std::int8_t, 2>(), to_low = low.codes.accessor<std::int8_t, 2>();
  for (std::int64_t r = 0; r < q.rows; ++r)
    for (std::int64_t c = 0; c < q.cols; ++c) {
      to_high[r][c] = static_cast<std::int8_t>(split_high(from[r][c]));
      to_low[r][c] = static_cast<std::int8_t>(split_low(from[r][c]));
    }
  ASSERT_LE(high.codes.abs().max().item<int>(), kInt4Max);
  ASSERT_LE(low.codes.abs().max().item<int>(), kInt4Max);
  const auto product = [&](const RowCodes& left) {
    return int_matmul(left, panels, {}, {}, torch::kFloat).to(torch::kLong);
  };
  EXPECT_TRUE(torch::equal(product(q), 14 * product(high) + product(low)));
}

TEST(DenseMatmul, ThreadsChangeNoBitAndShapesWork) {
  torch::manual_seed(2);
  for (const auto dtype : {torch::kFloat, torch::kBFloat16})
    for (const auto& [m, n, k] :
         {std::tuple{0, 3, 4}, {1, 1, 5}, {1, 300, 64}, {2, 1, 7}, {129, 65, 200}, {768, 384, 128}}) {
      const Tensor a = torch::randn({m, k}).to(dtype), b = torch::randn({n, k}).to(dtype).t();
      const int threads = at::get_num_threads();
      at::set_num_threads(1);
      const Tensor one = dense_matmul(a, b);
      at::set_num_threads(2);
      const Tensor two = dense_matmul(a, b);
      at::set_num_threads(threads);
      EXPECT_TRUE(torch::equal(one, two)) << m << " " << n << " " << k;
      const Tensor exact = a.to(torch::kDouble).matmul(b.to(torch::kDouble));
      // fp32: eps * sqrt(k) terms; bf16: one rounding of the result.
      const double eps = dtype == torch::kFloat ? 6e-8 * (1 + std::sqrt(k)) : 4e-3;
      EXPECT_LE((one.to(torch::kDouble) - exact).norm().item<double>(), eps * (exact.norm().item<double>() + 1e-30));
      if (dtype != torch::kFloat) continue;
      Tensor sum = torch::ones({m, n});
      dense_matmul_add(a, b, sum);
      EXPECT_TRUE(torch::equal(sum, torch::ones({m, n}) + one));
    }
  EXPECT_THROW(dense_matmul(torch::ones({2, 3}), torch::ones({2, 3})), c10::ValueError);
  EXPECT_THROW(dense_matmul(torch::ones({2, 3}), torch::ones({3, 2}, torch::kBFloat16)), c10::TypeError);
}

TEST(Codes, BadInputIsASentence) {
  EXPECT_THROW(rotate_rows(torch::ones({2, 24}), {.block = 16, .int4_packed = true}), c10::ValueError);
  EXPECT_THROW(rotate_rows(torch::ones({2, 16}, torch::kDouble), {.block = 16, .int4_packed = true}), c10::TypeError);
  EXPECT_THROW(rotate_rows(torch::ones({16, 2}).t(), {.block = 16, .int4_packed = true}), c10::ValueError);
  EXPECT_THROW(rotate_rows(torch::ones({16}), {.block = 16, .int4_packed = true}), c10::ValueError);
  const auto a = rotate_rows(torch::ones({2, 32}), {.block = 16, .absmax_limit = 98}).absmax;
  const auto b = rotate_rows(torch::ones({2, 16}), {.block = 16, .int4_packed = true}).int4;
  EXPECT_THROW(int_matmul(a, pack_panels(b, false), {}, {}, torch::kFloat), c10::ValueError);
}

}  // namespace
}  // namespace tessera::quant
