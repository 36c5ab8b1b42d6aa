#pragma once
// GPT-2 (Radford et al. 2019): pre-norm decoder, learned positions, GELU (tanh form), optionally tied head.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/nn/kv_cache.h"
#include "tessera/nn/unit.h"
#include "tessera/quant/recipe.h"
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// Architecture and numerics; validated by the constructor of Gpt (Error names the value).
struct GptOptions {
  // Architecture: what a checkpoint must agree with.
  std::int64_t vocabulary = 257;
  std::int64_t context = 64;  ///< positions
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
  bool tie_weights = true;  ///< the head multiplies the token embedding
  bool bias = true;         ///< linear layers and norms have biases

  // Numerics: may change between runs.
  double dropout = 0;                                   ///< after embedding, attention projection and MLP; in [0, 1)
  quant::Recipe recipe = quant::Recipe::named("w4a8");  ///< of the blocks' linear layers
  quant::Recipe head = quant::Recipe::named("bf16");
  std::int64_t keep_first = 0, keep_last = 0;  ///< so many first and last blocks run in bf16 instead
  torch::ScalarType activations =
      torch::kFloat32;  ///< between layers: kFloat32 or kBFloat16; the residual stream is fp32
};

/// One micro-batch.
struct TokenBatch {
  torch::Tensor inputs;     ///< [batch, tokens] int64, 0..vocabulary-1
  torch::Tensor targets;    ///< [batch, tokens] int64, -1: no target
  torch::Tensor documents;  ///< [batch, tokens] int32 or undefined; attention stays within equal numbers
};

class GptBlock;

class GptImpl : public torch::nn::Module {
 public:
  /// Element i of parameter p is a function of (seed, p, i): the same for every world size.
  GptImpl(GptOptions options, std::uint64_t seed);

  /// Mean cross-entropy (nats per token) over the positions that have a target; [] fp32, differentiable.
  /// Throws Error for ids out of range, more tokens than `context`, or no target at all.
  torch::Tensor loss(const TokenBatch& batch, UnitRunner& runner, const UnitContext& context);

  /// Logits [batch, tokens, vocabulary] fp32 of every position; for tests and short sequences. `documents` as in
  /// TokenBatch.
  torch::Tensor logits(const torch::Tensor& ids, UnitRunner& runner, const UnitContext& context,
                       const torch::Tensor& documents = {});

  /// Logits [batch, vocabulary] fp32 that follow the last of `ids` [batch, new tokens], given the cache.
  /// Throws Error when the cache's capacity or the model's context is exceeded.
  torch::Tensor next_logits(const torch::Tensor& ids, KvCache& cache, UnitRunner& runner);

  const GptOptions& options() const { return options_; }
  /// Another recipe for the blocks that are not kept in bf16, from the next forward pass on. Throws Error when the
  /// width does not allow it.
  void set_recipe(const quant::Recipe& recipe);
  std::int64_t parameter_count() const;

 private:
  GptOptions options_;
  std::shared_ptr<Unit> embedding_, head_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;

  bool kept_in_bf16(std::int64_t block) const;
  TensorList run_blocks(const torch::Tensor& ids, const torch::Tensor& mask, UnitRunner& runner,
                        const UnitContext& context);
};
TORCH_MODULE(Gpt);

}  // namespace tessera::nn
