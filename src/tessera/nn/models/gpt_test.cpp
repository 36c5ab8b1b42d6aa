#include "tessera/nn/models/gpt.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tessera/base/check.h"
#include "tessera/nn/head_loss.h"
#include "tessera/nn/local_runner.h"
#include "tessera/nn/testing/autograd_memory.h"

namespace tessera::nn {
namespace {

using quant::Recipe;
using torch::Tensor;

GptOptions small(const std::string& recipe = "fp32") {
  GptOptions options;
  options.vocabulary = 61;
  options.context = 24;
  options.layers = 3;
  options.heads = 4;
  options.width = 64;
  options.recipe = Recipe::named(recipe);
  options.head = Recipe::named(recipe == "fp32" ? "fp32" : "bf16");
  return options;
}

TokenBatch random_batch(const GptOptions& options, std::int64_t batch, std::int64_t tokens) {
  torch::manual_seed(11);
  return {torch::randint(options.vocabulary, {batch, tokens}, torch::kLong),
          torch::randint(options.vocabulary, {batch, tokens}, torch::kLong),
          {}};
}

// GPT-2 in plain LibTorch and fp64, written from the paper: the oracle of architecture and gradients.
struct PlainGpt {
  std::map<std::string, Tensor> p;
  GptOptions options;

  explicit PlainGpt(Gpt& model) : options(model->options()) {
    for (const auto& item : model->named_parameters())
      p[item.key()] = item.value().detach().to(torch::kDouble).requires_grad_();
  }
  Tensor norm(const Tensor& x, const std::string& name) {
    const Tensor mean = x.mean(-1, true), centered = x - mean;
    return centered / (centered.square().mean(-1, true) + 1e-5).sqrt() * p[name + ".weight"] + p[name + ".bias"];
  }
  Tensor affine(const Tensor& x, const std::string& name) {
    return x.matmul(p[name + ".weight"].t()) + p[name + ".bias"];
  }
  Tensor logits(const Tensor& ids) {
    const std::int64_t batch = ids.size(0), tokens = ids.size(1), width = options.width, heads = options.heads;
    Tensor x = p["embedding.token"].index({ids}) + p["embedding.position"].narrow(0, 0, tokens);
    const Tensor future = torch::ones({tokens, tokens}, torch::kBool).triu(1);
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      const std::string block = "blocks." + std::to_string(layer);
      const auto qkv = affine(norm(x, block + ".attention_norm"), block + ".qkv").split(width, 2);
      const auto head_view = [&](const Tensor& t) {
        return t.reshape({batch, tokens, heads, width / heads}).permute({0, 2, 1, 3});
      };
      Tensor scores = head_view(qkv[0]).matmul(head_view(qkv[1]).transpose(2, 3)) / std::sqrt(width / heads);
      scores = scores.masked_fill(future, -std::numeric_limits<double>::infinity()).softmax(-1);
      const Tensor attended = scores.matmul(head_view(qkv[2])).permute({0, 2, 1, 3}).reshape({batch, tokens, width});
      x = x + affine(attended, block + ".projection");
      const Tensor h = affine(norm(x, block + ".mlp_norm"), block + ".up");
      const Tensor gelu = 0.5 * h * (1 + (std::sqrt(2 / M_PI) * (h + 0.044715 * h.pow(3))).tanh());
      x = x + affine(gelu, block + ".down");
    }
    return norm(x, "head.norm").matmul(p[options.tie_weights ? "embedding.token" : "head.weight"].t());
  }
};

double relative(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  return ((x - y).norm() / y.norm().clamp_min(1e-30)).item<double>();
}

// Biases and norms start at 0 and 1; random values make the parity test see them.
void perturb(Gpt& model) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(5);
  for (const auto& item : model->named_parameters()) item.value().add_(torch::randn_like(item.value()) * 0.05);
}

// Each fp32 rounding is relative eps = 6e-8; a value passes through about 12 operations per layer and its sums walk
// over up to 4 * width terms: eps * sqrt(12 * layers * 4 * width) = 6e-8 * 96 = 6e-6, times 4 for cancellation in norms.
constexpr double kParity = 2.4e-5;

TEST(GptParity, LogitsAndGradientsEqualPlainLibTorch) {
  for (const bool tied : {true, false}) {
    GptOptions options = small();
    options.tie_weights = tied;
    Gpt model(options, 1);
    perturb(model);
    PlainGpt plain(model);
    LocalRunner runner;
    const TokenBatch batch = random_batch(options, 3, 24);
    EXPECT_LE(relative(model->logits(batch.inputs, runner, {}), plain.logits(batch.inputs)), kParity);
    const Tensor loss = model->loss(batch, runner, {});
    const Tensor expected = torch::nn::functional::cross_entropy(
        plain.logits(batch.inputs).view({-1, options.vocabulary}), batch.targets.view({-1}));
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), kParity * expected.item<double>());
    loss.backward();
    expected.backward();
    for (const auto& item : model->named_parameters())
      EXPECT_LE(relative(item.value().grad(), plain.p[item.key()].grad()), kParity * 4) << item.key();
  }
}

TEST(GptParity, ParameterCountIsGpt2s) {
  GptOptions options;  // GPT-2 small without its padding: 124,439,808
  options.vocabulary = 50257;
  options.context = 1024;
  options.layers = 12;
  options.heads = 12;
  options.width = 768;
  EXPECT_EQ(Gpt(options, 0)->parameter_count(), 124439808);
}

TEST(GptLoss, IgnoresTokensWithoutTarget) {
  const GptOptions options = small();
  Gpt model(options, 1);
  LocalRunner runner;
  TokenBatch batch = random_batch(options, 2, 10);
  const Tensor logits = model->logits(batch.inputs, runner, {}).view({-1, options.vocabulary});
  batch.targets.index_put_({torch::indexing::Slice(), torch::indexing::Slice(0, 7)}, -1);
  const auto expected = torch::nn::functional::cross_entropy(
      logits, batch.targets.view({-1}), torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-1));
  EXPECT_NEAR(model->loss(batch, runner, {}).item<double>(), expected.item<double>(), 1e-5);
  batch.targets.fill_(-1);
  EXPECT_THROW(model->loss(batch, runner, {}), c10::ValueError);
}

// The head sees 16 tokens at a time at the least; chunks only change the order of one sum.
TEST(GptLoss, ChunkedHeadEqualsWholeHead) {
  const std::int64_t vocabulary = kHeadChunkElements / 400, width = 32, tokens = 1003;
  ASSERT_EQ(head_chunk_tokens(vocabulary), 400);
  torch::manual_seed(4);
  Tensor hidden = torch::randn({tokens, width}).requires_grad_(),
         weight = (torch::randn({vocabulary, width}) / 8).requires_grad_();
  const Tensor targets = torch::randint(vocabulary, {tokens}, torch::kLong);
  auto handle = std::make_shared<MasterWeight>();
  handle->refresh(weight);
  const testing::AllocationScope scope;
  const Tensor loss = head_loss(hidden, weight, targets, {handle, width, vocabulary, Recipe::named("fp32"), {}, {}, 0});
  EXPECT_LT(scope.live_bytes(), 2 * weight.numel() * 4);  // dW and small change, no logits
  (loss * 3).backward();
  const Tensor ours = hidden.grad().clone(), ours_w = weight.grad().clone();
  hidden.mutable_grad().reset();
  weight.mutable_grad().reset();
  const Tensor expected = torch::nn::functional::cross_entropy(hidden.matmul(weight.t()), targets);
  (expected * 3).backward();
  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
  EXPECT_LE(relative(ours, hidden.grad()), kParity);
  EXPECT_LE(relative(ours_w, weight.grad()), kParity);
}

std::map<std::string, Tensor> gradients(Gpt& model, const TokenBatch& batch, UnitRunner& runner,
                                        const UnitContext& context) {
  model->zero_grad();
  model->loss(batch, runner, context).backward();
  std::map<std::string, Tensor> result;
  for (const auto& item : model->named_parameters()) result[item.key()] = item.value().grad().clone();
  return result;
}

class GptRecipes : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, GptRecipes, ::testing::ValuesIn(Recipe::names()), [](const auto& i) { return i.param; });

TEST_P(GptRecipes, RecomputeChangesNoBit) {
  GptOptions options = small(GetParam());
  options.dropout = 0.1;
  Gpt model(options, 1);
  const TokenBatch batch = random_batch(options, 3, 24);
  LocalRunner keep, recompute(true);
  UnitContext context;
  context.training = true;
  context.noise = {9, 4, 1};
  const auto a = gradients(model, batch, keep, context), b = gradients(model, batch, recompute, context);
  for (const auto& [name, gradient] : a) EXPECT_TRUE(torch::equal(gradient, b.at(name))) << name;
}

TEST_P(GptRecipes, ThreadsChangeNoBit) {
  const GptOptions options = small(GetParam());
  Gpt model(options, 1);
  const TokenBatch batch = random_batch(options, 5, 23);
  LocalRunner runner;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto a = gradients(model, batch, runner, {});
  at::set_num_threads(2);
  const auto b = gradients(model, batch, runner, {});
  at::set_num_threads(threads);
  for (const auto& [name, gradient] : a) EXPECT_TRUE(torch::equal(gradient, b.at(name))) << name;
}

TEST_P(GptRecipes, GradientsPointAlongFp32s) {
  Gpt model(small(GetParam()), 1), exact(small(), 1);
  const TokenBatch batch = random_batch(model->options(), 6, 24);
  LocalRunner runner;
  const auto a = gradients(model, batch, runner, {}), b = gradients(exact, batch, runner, {});
  for (const auto& [name, gradient] : a) {
    const double cosine = torch::cosine_similarity(gradient.flatten(), b.at(name).flatten(), 0).item<double>();
    // Two INT4 operands of SNR 18.9 dB lose at most a few percent of direction per layer; a wrong fold or mask loses all.
    EXPECT_GT(cosine, GetParam() == "rms4" ? 0.8 : 0.9) << name;
  }
}

TEST(GptRecipe, KeptBlocksRunInBf16) {
  GptOptions all = small("rms4"), kept = small("rms4"), bf16 = small("bf16");
  kept.keep_first = 1;
  kept.keep_last = 2;
  LocalRunner runner;
  const TokenBatch batch = random_batch(all, 2, 24);
  Gpt a(all, 1), b(kept, 1), c(bf16, 1);
  const Tensor y = c->logits(batch.inputs, runner, {});
  EXPECT_FALSE(torch::equal(a->logits(batch.inputs, runner, {}), y));
  EXPECT_TRUE(torch::equal(b->logits(batch.inputs, runner, {}), y));
}

TEST(GptGenerate, CacheGivesTheLogitsOfTheWholeSequence) {
  const GptOptions options = small();
  Gpt model(options, 1);
  perturb(model);
  LocalRunner runner;
  const Tensor ids = random_batch(options, 2, 20).inputs;
  const torch::NoGradGuard no_grad;
  const Tensor whole = model->logits(ids, runner, {});
  KvCache cache(options.layers, options.context);
  // A prompt, single tokens, then several tokens at once.
  std::int64_t done = 0;
  for (const std::int64_t count : {9, 1, 1, 1, 5, 3}) {
    const Tensor next = model->next_logits(ids.narrow(1, done, count), cache, runner);
    done += count;
    EXPECT_EQ(cache.length(), done);
    EXPECT_LE(relative(next, whole.select(1, done - 1)), kParity);
  }
  EXPECT_THROW(model->next_logits(ids.narrow(1, 0, 5), cache, runner), c10::ValueError);
}

TEST(GptDocuments, DoNotSeeEachOther) {
  const GptOptions options = small();
  Gpt model(options, 1);
  LocalRunner runner;
  TokenBatch batch = random_batch(options, 1, 20);
  batch.documents = torch::cat({torch::zeros({1, 8}, torch::kInt), torch::ones({1, 12}, torch::kInt)}, 1);
  batch.targets.index_put_({torch::indexing::Slice(), torch::indexing::Slice(0, 8)}, -1);  // loss of the second only
  const double before = model->loss(batch, runner, {}).item<double>();
  batch.inputs.narrow(1, 0, 8).copy_((batch.inputs.narrow(1, 0, 8) + 1) % options.vocabulary);
  EXPECT_EQ(model->loss(batch, runner, {}).item<double>(), before);
  batch.documents = Tensor();
  EXPECT_NE(model->loss(batch, runner, {}).item<double>(), before);
}

TEST(GptInit, DependsOnSeedAndNameOnly) {
  Gpt a(small(), 1), b(small(), 1), c(small(), 2);
  for (const auto& item : a->named_parameters()) {
    EXPECT_TRUE(torch::equal(item.value(), b->named_parameters()[item.key()])) << item.key();
    if (item.value().dim() == 2) {
      EXPECT_FALSE(torch::equal(item.value(), c->named_parameters()[item.key()])) << item.key();
    }
  }
  const double std = a->named_parameters()["blocks.0.qkv.weight"].std().item<double>();
  EXPECT_NEAR(std, 0.02, 0.02 * 4 / std::sqrt(2.0 * 3 * 64 * 64));  // four standard deviations of the estimate
}

TEST(GptBf16Activations, LossStaysClose) {
  GptOptions options = small("w4a8");
  Gpt exact(options, 1);
  options.activations = torch::kBFloat16;
  Gpt rounded(options, 1);
  LocalRunner runner;
  const TokenBatch batch = random_batch(options, 4, 24);
  const double a = exact->loss(batch, runner, {}).item<double>(), b = rounded->loss(batch, runner, {}).item<double>();
  EXPECT_NE(a, b);
  EXPECT_NEAR(a, b, 0.01 * a);
  rounded->loss(batch, runner, {}).backward();
  for (const auto& parameter : rounded->parameters()) EXPECT_TRUE(parameter.grad().isfinite().all().item<bool>());
}

TEST(GptErrors, NameTheValue) {
  const auto message = [](auto change) {
    GptOptions options = small();
    change(options);
    try {
      Gpt model(options, 1);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message([](auto& o) { o.heads = 5; }).find("width is 64, which 5 heads"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.layers = 0; }).find("layers is 0"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.dropout = 1; }).find("dropout is 1"), std::string::npos);
  EXPECT_NE(message([](auto& o) { o.keep_last = 4; }).find("keep_last 4"), std::string::npos);
  EXPECT_NE(message([](auto& o) {
              o.width = 40;
              o.recipe = Recipe::named("rms4");
            }).find("multiple of 16"),
            std::string::npos);
  Gpt model(small(), 1);
  LocalRunner runner;
  EXPECT_THROW(model->logits(torch::full({1, 4}, 61, torch::kLong), runner, {}), c10::ValueError);
  EXPECT_THROW(model->logits(torch::zeros({1, 25}, torch::kLong), runner, {}), c10::ValueError);
}

}  // namespace
}  // namespace tessera::nn
