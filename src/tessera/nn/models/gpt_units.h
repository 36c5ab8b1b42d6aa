#pragma once
// The units of a GPT: embedding, block, head.
#include <memory>
#include <string>

#include "tessera/nn/linear.h"
#include "tessera/nn/models/gpt.h"
#include "tessera/nn/unit.h"

namespace tessera::nn {

/// LayerNorm's parameters.
class NormImpl : public torch::nn::Module {
 public:
  NormImpl(std::int64_t width, bool with_bias);
  torch::Tensor forward(const torch::Tensor& x, torch::ScalarType dtype);
  /// The same as what a linear layer does to its input.
  InputMap before_linear(torch::ScalarType dtype) const;

 private:
  torch::Tensor weight_, bias_;
};
TORCH_MODULE(Norm);

/// ids [B, T] int64 -> residual stream [B, T, D] f32: token embedding + position embedding.
class GptEmbedding : public Unit {
 public:
  GptEmbedding(const GptOptions& options, std::uint64_t seed);
  TensorList forward(const TensorList& inputs, const UnitContext& context) override;
  const torch::Tensor& token() const { return token_; }

 private:
  double dropout_;
  torch::Tensor token_, position_;  // [V, D], [context, D]
};

/// residual [B, T, D] f32, mask [B, 1, T, T] bool or undefined (causal) -> residual:
/// x + attention(norm(x)), then x + mlp(norm(x)).
class GptBlock : public Unit {
 public:
  GptBlock(const GptOptions& options, const quant::Recipe& recipe, std::int64_t index, std::uint64_t seed);
  TensorList forward(const TensorList& inputs, const UnitContext& context) override;
  /// Of all four linear layers, from the next forward pass on.
  void set_recipe(const quant::Recipe& recipe);

 private:
  torch::Tensor attend(const torch::Tensor& qkv, const torch::Tensor& mask, const UnitContext& context) const;
  Linear add_linear(const std::string& name, std::int64_t in, std::int64_t out, double std, std::uint64_t seed,
                    const quant::Recipe& recipe);

  std::int64_t index_, heads_;
  double dropout_;
  torch::ScalarType activations_;
  bool with_bias_;
  Norm attention_norm_{nullptr}, mlp_norm_{nullptr};
  Linear qkv_{nullptr}, projection_{nullptr}, up_{nullptr}, down_{nullptr};
};

/// residual [B, T, D] -> logits [B, T, V] f32, or with targets [B, T] as second input -> mean loss [].
class GptHead : public Unit {
 public:
  /// `tied`: the token embedding to multiply, or undefined: a weight of its own.
  GptHead(const GptOptions& options, const torch::Tensor& tied, std::uint64_t seed);
  TensorList forward(const TensorList& inputs, const UnitContext& context) override;
  /// Its loss already holds gradients when forward returns.
  bool worth_recomputing() const override { return false; }

 private:
  torch::ScalarType activations_;
  quant::Recipe recipe_;
  Norm norm_{nullptr};
  torch::Tensor weight_;  // [V, D]
  std::shared_ptr<MasterWeight> handle_ = std::make_shared<MasterWeight>();
};

}  // namespace tessera::nn
