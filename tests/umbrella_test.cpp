// The umbrella header compiles alone and brings every layer: a GPT built, run and driven through it.
#include "tessera/tessera.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(UmbrellaTest, RunsAGptFromTextToLoss) {
  nn::GptOptions options;
  options.layers = 1;
  options.heads = 2;
  options.width = 32;
  options.context = 8;
  nn::Gpt model(options, /*seed=*/1);
  nn::LocalRunner runner;

  const std::string text = "INT4 INT4";
  nn::TokenBatch batch;
  batch.inputs = torch::zeros({1, 8}, torch::kInt64);
  batch.targets = torch::zeros({1, 8}, torch::kInt64);
  for (std::int64_t i = 0; i < 8; ++i) {
    batch.inputs[0][i] = static_cast<std::uint8_t>(text[i]);
    batch.targets[0][i] = static_cast<std::uint8_t>(text[i + 1]);
  }
  const torch::Tensor loss = model->loss(batch, runner, nn::UnitContext{});
  loss.backward();
  // A fresh model knows nothing: its loss is that of a uniform guess, to within what random logits add.
  EXPECT_NEAR(loss.item<double>(), std::log(static_cast<double>(options.vocabulary)), 0.5);
  for (const auto& parameter : model->parameters()) EXPECT_TRUE(parameter.grad().defined());
}

}  // namespace
}  // namespace tessera
