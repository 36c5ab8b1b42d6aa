// The guard of docs/kernels.md: every pass over memory in a block's training step writes a tensor, so the large
// allocations are the passes. They are spelled out here; a copy, a cast or a pass that is not in the list fails.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tessera/kernels/fold_quantize/fold_quantize.h"
#include "tessera/kernels/igemm/igemm.h"
#include "tessera/nn/attention.h"
#include "tessera/nn/models/gpt_units.h"
#include "tessera/nn/testing/autograd_memory.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kBatch = 4, kTokens = 96, kRows = kBatch * kTokens, kWidth = 128, kHeads = 2;
// Below every tensor of rows x features, above everything per row or per feature.
constexpr std::int64_t kLarge = kRows * kWidth / 2;

Sizes sorted(Sizes sizes) {
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

Sizes operator+(Sizes a, const Sizes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr std::int64_t f32(std::int64_t rows, std::int64_t cols) { return rows * cols * 4; }
constexpr std::int64_t bf16(std::int64_t rows, std::int64_t cols) { return rows * cols * 2; }
std::int64_t codes(std::int64_t rows, std::int64_t cols) { return rows * kernels::igemm_a_stride(cols); }

// Forward of w4a8: bit-split codes that are multiplied, INT4 codes that are kept, Y.
Sizes linear_forward(std::int64_t in, std::int64_t out) { return {codes(kRows, in), kRows * in / 2, bf16(kRows, out)}; }

// Backward: dY as codes along rows and along columns, with the scratch of that pass; dX still rotated, dX; panels of
// the kept codes, dW, which is rotated back in place.
Sizes linear_backward(std::int64_t in, std::int64_t out) {
  kernels::FoldQuantizeParams fold;
  std::int8_t code;
  float sum;
  fold.rows = kRows, fold.cols = out, fold.row_codes = fold.column_codes = &code, fold.column_sum = &sum;
  return {codes(kRows, out), codes(out, kRows), fold_quantize_workspace(fold),
          f32(kRows, in),    bf16(kRows, in),   kernels::igemm_packed_b_bytes(in, kRows),
          f32(out, in)};
}

Sizes at_least(std::int64_t least, const Sizes& sizes) {
  Sizes large;
  for (const std::int64_t size : sizes)
    if (size >= least) large.push_back(size);
  return sorted(large);
}

struct Passes {
  Sizes forward, backward;
};

Passes passes_of_block(const std::string& recipe) {
  GptOptions options;
  options.width = kWidth, options.heads = kHeads, options.context = kTokens;
  options.activations = torch::kBFloat16;
  GptBlock block(options, quant::Recipe::named(recipe), 0, 1);
  torch::manual_seed(1);
  const Tensor x = torch::randn({kBatch, kTokens, kWidth}).requires_grad_(), dy = torch::randn_like(x);
  UnitContext context;
  context.training = true;
  block.forward({x, Tensor()}, context);  // the weights' codes are cached from here on
  Passes passes;
  Tensor y;
  {
    const testing::AllocationScope scope;
    y = block.forward({x, Tensor()}, context)[0];
    passes.forward = scope.allocations(kLarge);
  }
  const testing::AllocationScope scope;
  y.backward(dy);
  passes.backward = scope.allocations(kLarge);
  return passes;
}

TEST(GptTraffic, BlockMakesTheseTensorsAndNoOthers) {
  if (!causal_attention_supported(torch::zeros({1, 1, 3 * kWidth}), kHeads)) GTEST_SKIP() << "torch's attention runs";
  const Passes passes = passes_of_block("w4a8");
  const Sizes attention = {bf16(kRows, kWidth)}, residual = {f32(kRows, kWidth)};
  const Sizes forward = linear_forward(kWidth, 3 * kWidth) + attention + linear_forward(kWidth, kWidth) + residual +
                        linear_forward(kWidth, 4 * kWidth) + linear_forward(4 * kWidth, kWidth) + residual;
  EXPECT_EQ(passes.forward, at_least(kLarge, forward));
  const Sizes to_bf16 = {bf16(kRows, kWidth)};  // of the residual's gradient
  const Sizes norm = {f32(kRows, kWidth)};      // LayerNorm's dx
  const Sizes sum = {
      f32(kRows, kWidth)};  // plus the residual's own gradient: the caller's dy stays, later sums go in place
  const Sizes backward = to_bf16 + linear_backward(4 * kWidth, kWidth) +     // down
                         linear_backward(kWidth, 4 * kWidth) + norm + sum +  // up
                         to_bf16 + linear_backward(kWidth, kWidth) +         // projection
                         Sizes{bf16(kRows, 3 * kWidth)} +                    // attention
                         linear_backward(kWidth, 3 * kWidth) + norm;         // qkv
  EXPECT_EQ(passes.backward, at_least(kLarge, backward));
}

}  // namespace
}  // namespace tessera::nn
