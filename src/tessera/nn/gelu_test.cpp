#include "tessera/nn/gelu.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace tessera::nn {
namespace {

using torch::Tensor;

TEST(NnGelu, EqualsTorchsInDoubleForAnyLayout) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    torch::manual_seed(7);
    const Tensor values = (3 * torch::randn({3, 37, 11})).to(dtype), dy = torch::randn({11, 37, 3}).to(dtype);
    const Tensor x = values.clone().requires_grad_();
    const Tensor y = nn::gelu(x.transpose(0, 2));
    y.backward(dy);
    const Tensor exact = values.to(torch::kDouble).requires_grad_();
    const Tensor want = torch::gelu(exact.transpose(0, 2), "tanh");
    want.backward(dy.to(torch::kDouble));
    EXPECT_EQ(y.scalar_type(), dtype);
    // f32: (15 |z| + 30) 2^-24 of at most 1.2 |dy|, where |z| < 90 only while s is tiny; bf16: half a unit of values below 16
    const double bound = dtype == torch::kFloat ? 2e-5 : 16 * 0x1p-8;
    EXPECT_LT((y.to(torch::kDouble) - want).abs().max().item<double>(), bound);
    EXPECT_LT((x.grad().to(torch::kDouble) - exact.grad()).abs().max().item<double>(), bound);
  }
}

TEST(NnGelu, EmptyAndWrongType) {
  EXPECT_EQ(nn::gelu(torch::zeros({0, 4})).numel(), 0);
  EXPECT_THROW(nn::gelu(torch::zeros({4}, torch::kInt)), c10::Error);
}

}  // namespace
}  // namespace tessera::nn
