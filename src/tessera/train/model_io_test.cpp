#include "tessera/train/model_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/base/testing/temporary_directory.h"
#include "tessera/nn/local_runner.h"
#include "tessera/train/testing/tiny_run.h"

namespace tessera::train {
namespace {

using tessera::testing::TemporaryDirectory;
using tessera::testing::tiny_config;
using ::testing::AllOf;
using ::testing::HasSubstr;

ModelFacts tiny_facts(const TrainConfig& config) {
  ModelFacts facts;
  facts.config = config;
  facts.vocabulary = {257, "byte", 256};
  facts.options = gpt_options(config, 257);
  facts.data = {{"a.tok", "0123456789abcdef", 1000, 0.25}};
  facts.progress = {.step = 7, .samples = 28, .updates = 6, .skipped_in_a_row = 1, .evaluated = 5, .loss = 0.1};
  return facts;
}

class ModelIoTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  TrainConfig config_ = tiny_config(directory_.path());
  ModelFacts facts_ = tiny_facts(config_);
  nn::Gpt model_{facts_.options, /*seed=*/std::uint64_t{11}};
  io::CheckpointStore store_{directory_ / "run/checkpoints"};

  std::filesystem::path save() {
    io::CheckpointWriter writer = store_.begin(facts_.progress.step);
    write_model(writer, model_);
    writer.commit(facts_json(facts_));
    return store_.path(facts_.progress.step);
  }

  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
};

TEST_F(ModelIoTest, RoundTripsBitForBit) {
  const std::filesystem::path path = save();
  const LoadedModel loaded = load_model(path);
  const auto saved = named_parameters(model_), read = named_parameters(loaded.model);
  ASSERT_EQ(saved.size(), read.size());
  for (std::size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(saved[i].first, read[i].first);
    EXPECT_TRUE(torch::equal(saved[i].second, read[i].second)) << saved[i].first;
  }
  EXPECT_EQ(facts_json(loaded.facts), facts_json(facts_));
  EXPECT_EQ(loaded.path, path);
  EXPECT_FALSE(loaded.model->is_training());
}

TEST_F(ModelIoTest, RunFolderGivesItsNewest) {
  save();
  facts_.progress.step = 9;
  save();
  EXPECT_EQ(load_model(directory_ / "run").facts.progress.step, 9);
}

TEST_F(ModelIoTest, AdjustChangesNumerics) {
  save();
  const LoadedModel loaded =
      load_model(directory_ / "run", [](nn::GptOptions& options) { options.recipe = quant::Recipe::named("fp32"); });
  EXPECT_EQ(loaded.model->options().recipe.describe(), "fp32");
}

TEST_F(ModelIoTest, LoadedWeightsReachTheProducts) {
  // The codes that a product has cached must not outlive the weights they came from.
  save();
  nn::Gpt other(facts_.options, std::uint64_t{12});
  nn::LocalRunner runner;
  const torch::NoGradGuard no_grad;
  const torch::Tensor ids = torch::arange(8).unsqueeze(0);
  other->logits(ids, runner, {});
  read_model(io::open_checkpoint(store_.path(7)), other);
  EXPECT_TRUE(torch::equal(other->logits(ids, runner, {}), model_->logits(ids, runner, {})));
}

TEST_F(ModelIoTest, AnotherArchitectureIsNamed) {
  const std::filesystem::path path = save();
  const io::CheckpointReader reader = io::open_checkpoint(path);
  const std::string file = (path / "model.safetensors").string();
  const auto problem = [&](const std::function<void(nn::GptOptions&)>& change) {
    nn::GptOptions options = facts_.options;
    change(options);
    nn::Gpt other(options, std::uint64_t{1});
    const auto before = other->parameters()[0].clone();
    const std::string message = error_of([&] { read_model(reader, other); });
    EXPECT_TRUE(torch::equal(before, other->parameters()[0]));
    return message;
  };
  EXPECT_EQ(problem([](nn::GptOptions& o) { o.width = 64; }),
            file + ": tensor embedding.token has shape [257, 32], expected [257, 64]");
  EXPECT_THAT(problem([](nn::GptOptions& o) { o.layers = 3; }), HasSubstr(file + " lacks the tensor blocks.2."));
  EXPECT_THAT(problem([](nn::GptOptions& o) { o.layers = 1; }),
              AllOf(HasSubstr(file + " has a tensor blocks.1."), HasSubstr("that the model lacks")));
  EXPECT_EQ(problem([](nn::GptOptions& o) { o.tie_weights = false; }), file + " lacks the tensor head.weight");
}

TEST_F(ModelIoTest, WhatIsNoModelIsNamed) {
  EXPECT_THAT(error_of([&] { load_model(directory_ / "nowhere"); }), HasSubstr("nowhere does not exist"));
  EXPECT_THAT(error_of([&] { load_model(directory_.path()); }), HasSubstr("neither a checkpoint"));
  const auto commit = [&](const nlohmann::json& user) {
    io::CheckpointWriter writer = store_.begin(3);
    writer.commit(user);
    return error_of([&] { load_model(store_.path(3)); });
  };
  EXPECT_THAT(commit(nlohmann::json::object()), HasSubstr("\"architecture\" is missing"));
  EXPECT_THAT(commit({{"architecture", "bert"}}), HasSubstr("the architecture is 'bert', expected 'gpt'"));
  nlohmann::json user = facts_json(facts_);
  EXPECT_THAT(commit(user), HasSubstr("the manifest is of step 3, its progress of step 7"));
  user["model"]["width"] = "wide";
  EXPECT_THAT(commit(user), HasSubstr("\"width\" is missing or of the wrong type"));
  user = facts_json(facts_);
  user["config"]["model.widht"] = 3;
  EXPECT_THAT(commit(user), HasSubstr("unknown key 'model.widht'"));
}

}  // namespace
}  // namespace tessera::train
