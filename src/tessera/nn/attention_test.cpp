#include "tessera/nn/attention.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace tessera::nn {
namespace {

using torch::Tensor;

// Output and gradient of torch's attention in `dtype`.
std::pair<Tensor, Tensor> torch_attention(const Tensor& from, const Tensor& d_o, std::int64_t heads,
                                          torch::ScalarType dtype) {
  const Tensor qkv = from.detach().to(dtype).requires_grad_();
  const std::int64_t batch = qkv.size(0), tokens = qkv.size(1), width = qkv.size(2) / 3;
  const auto parts = qkv.view({batch, tokens, 3, heads, width / heads}).permute({2, 0, 3, 1, 4}).unbind(0);
  const Tensor o = torch::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true)
                       .transpose(1, 2)
                       .reshape({batch, tokens, width});
  o.backward(d_o.to(dtype));
  return {o.detach(), qkv.grad()};
}

TEST(CausalAttention, EqualsTorchsInDouble) {
  for (const auto dtype : {torch::kFloat, torch::kBFloat16}) {
    for (const std::int64_t tokens : {1, 33, 130}) {
      torch::manual_seed(5);
      const Tensor values = torch::randn({2, tokens, 3 * 2 * 48}).to(dtype);
      const Tensor d_o = torch::randn({2, tokens, 2 * 48}).to(dtype);
      const Tensor qkv = values.clone().requires_grad_();
      const Tensor o = causal_attention(qkv, 2);
      o.backward(d_o);
      const auto [want, want_grad] = torch_attention(values, d_o, 2, torch::kDouble);
      EXPECT_EQ(o.scalar_type(), dtype);
      EXPECT_EQ(qkv.grad().scalar_type(), dtype);
      // bf16: roundings of 2^-9 in p, ds, o and the result, of sums of normal values
      const double bound = dtype == torch::kFloat ? 3e-6 : 8 * 0x1p-9;
      EXPECT_LT((o.to(torch::kDouble) - want).abs().max().item<double>(), bound) << tokens;
      EXPECT_LT((qkv.grad().to(torch::kDouble) - want_grad).abs().max().item<double>(), 4 * bound) << tokens;
    }
  }
}

TEST(CausalAttention, GradientIsNumericalDerivative) {
  torch::manual_seed(6);
  const Tensor qkv = torch::randn({1, 20, 3 * 2 * 16}).requires_grad_(), weight = torch::randn({1, 20, 2 * 16});
  (causal_attention(qkv, 2) * weight).sum().backward();
  const Tensor direction = torch::randn_like(qkv);
  const auto loss = [&](double step) {
    const torch::NoGradGuard no_grad;
    return (causal_attention(qkv + step * direction, 2) * weight).to(torch::kDouble).sum().item<double>();
  };
  const double h = 1e-2, numerical = (loss(h) - loss(-h)) / (2 * h);
  // h^2 times a third derivative of order 10, roundings of 640 terms
  EXPECT_NEAR((qkv.grad() * direction).sum().item<double>(), numerical, 1e-2 * std::max(1.0, std::abs(numerical)));
}

TEST(CausalAttention, RejectsOtherShapesByName) {
  EXPECT_FALSE(causal_attention_supported(torch::zeros({1, 4, 3 * 24}), 1));
  EXPECT_FALSE(causal_attention_supported(torch::zeros({1, 4, 3 * 32}, torch::kDouble), 1));
  EXPECT_FALSE(causal_attention_supported(torch::zeros({4, 3 * 32}), 1));
  EXPECT_TRUE(causal_attention_supported(torch::zeros({1, 4, 3 * 32}), 2));
  EXPECT_THROW(causal_attention(torch::zeros({1, 4, 3 * 24}), 1), c10::Error);
}

}  // namespace
}  // namespace tessera::nn
