#include "tessera/nn/models/gpt_units.h"

#include <fmt/format.h>

#include <cmath>

#include "tessera/nn/attention.h"
#include "tessera/nn/dropout.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/head_loss.h"
#include "tessera/nn/init.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/nn/layer_norm.h"
#include "tessera/nn/residual.h"
#include "tessera/nn/timed.h"

namespace tessera::nn {
namespace {

using torch::Tensor;

constexpr double kInitStd = 0.02;  // GPT-2

Tensor maybe_dropout(const Tensor& x, double p, const std::string& name, const UnitContext& context) {
  return context.training ? dropout(x, p, name, context.noise) : x;
}

}  // namespace

NormImpl::NormImpl(std::int64_t width, bool with_bias) {
  weight_ = register_parameter("weight", torch::ones({width}));
  bias_ = register_parameter("bias", with_bias ? torch::zeros({width}) : Tensor(), with_bias);
}

Tensor NormImpl::forward(const Tensor& x, torch::ScalarType dtype) { return layer_norm(x, weight_, bias_, dtype); }

InputMap NormImpl::before_linear(torch::ScalarType dtype) const {
  return {.map = quant::RowMap::kLayerNorm, .norm_weight = weight_, .norm_bias = bias_, .norm_dtype = dtype};
}

GptEmbedding::GptEmbedding(const GptOptions& options, std::uint64_t seed) : dropout_(options.dropout) {
  token_ = register_parameter("token", torch::empty({options.vocabulary, options.width}));
  position_ = register_parameter("position", torch::empty({options.context, options.width}));
  init_normal(token_, kInitStd, seed, "embedding.token");
  init_normal(position_, kInitStd, seed, "embedding.position");
}

TensorList GptEmbedding::forward(const TensorList& inputs, const UnitContext& context) {
  const Tensor& ids = inputs[0];
  const std::int64_t first = context.cache ? context.cache->length() : 0, tokens = ids.size(1);
  TORCH_CHECK_VALUE(first + tokens <= position_.size(0), "sequence has ", first + tokens,
                    " tokens, the model's context is ", position_.size(0));
  const Tensor x = nn::embedding(ids, token_) + position_.narrow(0, first, tokens);
  return {maybe_dropout(x, dropout_, "embedding", context)};
}

GptBlock::GptBlock(const GptOptions& options, const quant::Recipe& recipe, std::int64_t index, std::uint64_t seed)
    : index_(index),
      heads_(options.heads),
      dropout_(options.dropout),
      activations_(options.activations),
      with_bias_(options.bias) {
  const std::int64_t width = options.width;
  const double residual_std = kInitStd / std::sqrt(2.0 * static_cast<double>(options.layers));
  attention_norm_ = register_module("attention_norm", Norm(width, with_bias_));
  qkv_ = add_linear("qkv", width, 3 * width, kInitStd, seed, recipe);
  projection_ = add_linear("projection", width, width, residual_std, seed, recipe);
  mlp_norm_ = register_module("mlp_norm", Norm(width, with_bias_));
  up_ = add_linear("up", width, 4 * width, kInitStd, seed, recipe);
  down_ = add_linear("down", 4 * width, width, residual_std, seed, recipe);
}

Linear GptBlock::add_linear(const std::string& name, std::int64_t in, std::int64_t out, double std, std::uint64_t seed,
                            const quant::Recipe& recipe) {
  const std::string path = fmt::format("blocks.{}.{}", index_, name);
  Linear linear = register_module(name, Linear(LinearOptions(in, out).bias(with_bias_).recipe(recipe).name(path)));
  init_normal(linear->weight, std, seed, path + ".weight");
  if (with_bias_) torch::nn::init::zeros_(linear->bias);
  return linear;
}

void GptBlock::set_recipe(const quant::Recipe& recipe) {
  for (Linear* linear : {&qkv_, &projection_, &up_, &down_}) (*linear)->options.recipe(recipe);
}

Tensor GptBlock::attend(const Tensor& qkv, const Tensor& mask, const UnitContext& context) const {
  if (context.cache == nullptr && !mask.defined() && causal_attention_supported(qkv, heads_))
    return causal_attention(qkv, heads_);
  const std::int64_t batch = qkv.size(0), tokens = qkv.size(1), width = qkv.size(2) / 3;
  // unbind's backward is one stack; select's would be three full-size sums
  const TensorList parts = qkv.view({batch, tokens, 3, heads_, width / heads_}).unbind(2);
  const Tensor query = parts[0].transpose(1, 2);
  Tensor key = parts[1].transpose(1, 2), value = parts[2].transpose(1, 2), visible = mask;
  bool causal = !mask.defined();
  if (context.cache != nullptr) {
    const std::int64_t earlier = context.cache->length();
    std::tie(key, value) = context.cache->append(index_, key, value);
    causal = earlier == 0;
    if (!causal && tokens > 1) visible = torch::ones({tokens, earlier + tokens}, torch::kBool).tril(earlier);
  }
  std::optional<Tensor> attention_mask;
  if (visible.defined()) attention_mask = visible;
  const Tensor out = torch::scaled_dot_product_attention(query, key, value, attention_mask, /*dropout_p=*/0.0, causal);
  return out.transpose(1, 2).reshape({batch, tokens, width});
}

TensorList GptBlock::forward(const TensorList& inputs, const UnitContext& context) {
  Tensor x = inputs[0];
  const auto run = [&](Linear& linear, const Tensor& in, const InputMap& map = {}) {
    return linear->forward_at(in, context.noise, context.row_offset, map);
  };
  const Tensor qkv = run(qkv_, x, attention_norm_->before_linear(activations_));
  const Tensor seen = timed(Part::kAttention, qkv, [&](const Tensor& x) { return attend(x, inputs[1], context); });
  const Tensor attended = run(projection_, seen);
  x = add_residual(x, maybe_dropout(attended, dropout_, fmt::format("blocks.{}.projection", index_), context));
  const Tensor up = run(up_, x, mlp_norm_->before_linear(activations_));
  const Tensor down = run(down_, up, {.map = quant::RowMap::kGelu});
  return {add_residual(x, maybe_dropout(down, dropout_, fmt::format("blocks.{}.down", index_), context))};
}

GptHead::GptHead(const GptOptions& options, const Tensor& tied, std::uint64_t seed)
    : activations_(options.activations), recipe_(options.head) {
  norm_ = register_module("norm", Norm(options.width, options.bias));
  if (tied.defined()) {
    weight_ = tied;  // owned and registered by the embedding
  } else {
    weight_ = register_parameter("weight", torch::empty({options.vocabulary, options.width}));
    init_normal(weight_, kInitStd, seed, "head.weight");
  }
}

TensorList GptHead::forward(const TensorList& inputs, const UnitContext& context) {
  const Tensor hidden = norm_->forward(inputs[0], activations_);
  handle_->refresh(weight_);
  const std::int64_t width = hidden.size(-1);
  LinearCall call;
  call.weight = handle_;
  call.in_features = width, call.out_features = weight_.size(0);
  call.recipe = recipe_;
  call.noise_key = philox_key(context.noise.seed, "head", "dY");
  call.keep_key = philox_key(context.noise.seed, "head", "X");
  call.noise = context.noise;
  call.row_offset = context.row_offset;
  if (inputs.size() > 1) return {head_loss(hidden.view({-1, width}), weight_, inputs[1].reshape({-1}), call)};
  return {linear(hidden, weight_, {}, call).to(torch::kFloat)};
}

}  // namespace tessera::nn
