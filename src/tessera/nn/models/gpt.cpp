#include "tessera/nn/models/gpt.h"

#include "tessera/base/check.h"
#include "tessera/nn/models/gpt_units.h"

namespace tessera::nn {
namespace {

using torch::Tensor;

void validate(const GptOptions& o) {
  TESSERA_CHECK(o.vocabulary >= 2, "vocabulary is {}, expected at least 2", o.vocabulary);
  TESSERA_CHECK(o.context >= 1, "context is {}, expected at least 1", o.context);
  TESSERA_CHECK(o.layers >= 1, "layers is {}, expected at least 1", o.layers);
  TESSERA_CHECK(o.heads >= 1 && o.width >= 1 && o.width % o.heads == 0, "width is {}, which {} heads do not divide",
                o.width, o.heads);
  TESSERA_CHECK(o.dropout >= 0 && o.dropout < 1, "dropout is {}, expected 0 <= dropout < 1", o.dropout);
  TESSERA_CHECK(o.keep_first >= 0 && o.keep_last >= 0 && o.keep_first + o.keep_last <= o.layers,
                "keep_first {} and keep_last {} exceed the {} layers", o.keep_first, o.keep_last, o.layers);
  TESSERA_CHECK(o.activations == torch::kFloat32 || o.activations == torch::kBFloat16,
                "activations are {}, expected float32 or bfloat16", c10::toString(o.activations));
  for (const auto& [what, recipe, kept] :
       {std::tuple{"recipe", o.recipe, o.keep_first + o.keep_last == o.layers}, {"head", o.head, false}}) {
    TESSERA_CHECK(kept || !recipe.rotates() || o.width % 16 == 0, "width is {}, but {} '{}' needs a multiple of 16",
                  o.width, what, recipe.describe());
  }
}

// Positions see earlier ones of their own document: [B, 1, T, T] bool.
Tensor document_mask(const Tensor& documents) {
  const std::int64_t tokens = documents.size(1);
  const Tensor same = documents.unsqueeze(2).eq(documents.unsqueeze(1));
  return same.logical_and(torch::ones({tokens, tokens}, torch::kBool).tril()).unsqueeze(1);
}

}  // namespace

GptImpl::GptImpl(GptOptions options, std::uint64_t seed) : options_(std::move(options)) {
  validate(options_);
  auto embedding = register_module("embedding", std::make_shared<GptEmbedding>(options_, seed));
  torch::nn::ModuleList blocks;
  for (std::int64_t i = 0; i < options_.layers; ++i) {
    const quant::Recipe recipe = kept_in_bf16(i) ? quant::Recipe::named("bf16") : options_.recipe;
    blocks_.push_back(std::make_shared<GptBlock>(options_, recipe, i, seed));
    blocks->push_back(std::static_pointer_cast<torch::nn::Module>(blocks_.back()));
  }
  register_module("blocks", blocks);
  head_ = register_module(
      "head", std::make_shared<GptHead>(options_, options_.tie_weights ? embedding->token() : Tensor(), seed));
  embedding_ = embedding;
}

bool GptImpl::kept_in_bf16(std::int64_t block) const {
  return block < options_.keep_first || block >= options_.layers - options_.keep_last;
}

void GptImpl::set_recipe(const quant::Recipe& recipe) {
  GptOptions changed = options_;
  changed.recipe = recipe;
  validate(changed);
  options_ = changed;
  for (std::int64_t i = 0; i < options_.layers; ++i)
    if (!kept_in_bf16(i)) blocks_[static_cast<std::size_t>(i)]->set_recipe(recipe);
}

TensorList GptImpl::run_blocks(const Tensor& ids, const Tensor& mask, UnitRunner& runner, const UnitContext& context) {
  TORCH_CHECK_VALUE(ids.dim() == 2 && ids.size(1) >= 1, "token ids have shape ", ids.sizes(),
                    ", expected [batch, tokens]");
  TensorList x = runner.run(*embedding_, {ids}, context);
  for (const auto& block : blocks_) x = runner.run(*block, {x[0], mask}, context);
  return x;
}

Tensor GptImpl::loss(const TokenBatch& batch, UnitRunner& runner, const UnitContext& context) {
  const Tensor mask = batch.documents.defined() ? document_mask(batch.documents) : Tensor();
  const TensorList x = run_blocks(batch.inputs, mask, runner, context);
  return runner.run(*head_, {x[0], batch.targets}, context)[0];
}

Tensor GptImpl::logits(const Tensor& ids, UnitRunner& runner, const UnitContext& context, const Tensor& documents) {
  const Tensor mask = documents.defined() ? document_mask(documents) : Tensor();
  return runner.run(*head_, run_blocks(ids, mask, runner, context), context)[0];
}

Tensor GptImpl::next_logits(const Tensor& ids, KvCache& cache, UnitRunner& runner) {
  const torch::NoGradGuard no_grad;
  UnitContext context;
  context.cache = &cache;
  const TensorList x = run_blocks(ids, {}, runner, context);
  return runner.run(*head_, {x[0].narrow(1, ids.size(1) - 1, 1)}, context)[0].squeeze(1);
}

std::int64_t GptImpl::parameter_count() const {
  std::int64_t count = 0;
  for (const Tensor& parameter : parameters()) count += parameter.numel();
  return count;
}

}  // namespace tessera::nn
