// Whole runs in this process: what must not matter does not, what is wrong is a sentence.
#include "tessera/train/trainer.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/base/testing/temporary_directory.h"
#include "tessera/io/checkpoint_store.h"
#include "tessera/train/testing/tiny_run.h"

namespace tessera::train {
namespace {

using tessera::testing::expect_equal_checkpoints;
using tessera::testing::expect_equal_metrics;
using tessera::testing::folder_contents;
using tessera::testing::read_metrics;
using tessera::testing::SmallDisk;
using tessera::testing::TemporaryDirectory;
using tessera::testing::tiny_config;
using tessera::testing::write_tokens;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::filesystem::path step_path(const TrainConfig& config, std::int64_t step) {
  return std::filesystem::path(config.out) / "checkpoints" / fmt::format("step-{}", step);
}

TrainResult train(const TrainConfig& config) { return Trainer(config).run(); }

TrainResult train_and_stop_after(const TrainConfig& config, std::int64_t step) {
  Trainer trainer(config);
  trainer.set_observer([&](const StepMetrics& metrics) {
    if (metrics.step == step) trainer.request_stop();
  });
  return trainer.run();
}

std::string error_of(const TrainConfig& config) {
  try {
    train(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class TrainerTest : public ::testing::Test {
 protected:
  TemporaryDirectory directory_;
  const int threads_ = at::get_num_threads();
  ~TrainerTest() override { at::set_num_threads(threads_); }
};

TEST_F(TrainerTest, LearnsAndLeavesTheRunFolder) {
  TrainConfig config = tiny_config(directory_.path());
  config.steps = 80;
  config.optimizer.lr = 1e-2;
  config.eval.every = 40;
  config.checkpoint = {.every = 30, .keep = 2};
  config.sample = {.when = "end", .prompt = "the ", .tokens = 20};
  config.tensorboard = true;
  const TrainResult result = train(config);
  EXPECT_EQ(result.outcome, Outcome::kFinished);
  EXPECT_EQ(result.exit_code(), 0);

  const std::filesystem::path run = config.out;
  const std::vector<nlohmann::json> lines = read_metrics(run);
  ASSERT_EQ(lines.size(), 82u);  // 80 steps, evaluations at 40 and 80
  EXPECT_NEAR(lines[0]["loss"].get<double>(), std::log(257.0), 0.5);
  EXPECT_LT(lines[80]["loss"].get<double>(), 3.0);  // letters' frequencies alone give about 2.9
  EXPECT_EQ(lines[80]["step"], 80);
  EXPECT_EQ(lines[81]["step"], 80);
  EXPECT_EQ(lines[0]["tokens"], 4 * 32);
  const auto summary = nlohmann::json::parse(read_file(run / "summary.json"));
  EXPECT_EQ(summary["steps"], 80);
  EXPECT_EQ(summary["val_loss"], lines[81]["val_loss"]);
  EXPECT_EQ(summary["recipe"], "w4a8");
  EXPECT_THAT(io::CheckpointStore(run / "checkpoints").steps(), ::testing::ElementsAre(60, 80));
  EXPECT_THAT(read_file(run / "config.toml"), HasSubstr("recipe = \"w4a8\""));
  EXPECT_THAT(read_file(run / "samples/step-80.txt"), StartsWith("the "));
  EXPECT_FALSE(std::filesystem::is_empty(run / "tensorboard"));
}

TEST_F(TrainerTest, DescribesTheRun) {
  TrainConfig config = tiny_config(directory_.path());
  config.keep_last = 1;
  config.threads = 1;
  const std::string text = Trainer(config).describe();
  EXPECT_THAT(text, HasSubstr(", 1 thread\n"));
  // 257 + 32 embeddings, two blocks of 12 D^2 weights and 13 D vectors, the last norm; D = 32.
  EXPECT_THAT(text, HasSubstr(fmt::format("gpt, {:.1f}k parameters: 2 layers, width 32",
                                          ((257 + 32) * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 2 * 32) / 1e3)));
  EXPECT_THAT(text, HasSubstr("recipe     w4a8, head bf16, last 1 blocks bf16, activations fp32\n"));
  EXPECT_THAT(text, HasSubstr("tokens in 1 file; 128 tokens per step"));
  EXPECT_FALSE(path_exists(config.out));
}

// The phases of a run: bits of the warm start's recipe before the change, others after it, also when the run stops there.
TEST_F(TrainerTest, RecipeChangesAtItsStep) {
  const auto losses = [&](const std::string& name, const char* recipe, const char* warmup, std::int64_t stop) {
    TrainConfig config = tiny_config(directory_.path(), name);
    config.recipe = recipe;
    config.recipe_warmup = warmup;
    config.recipe_warmup_fraction = 0.5;  // of 20 steps
    if (stop > 0) {
      train_and_stop_after(config, stop);
      config.resume = "auto";
    }
    train(config);
    std::vector<std::string> losses;
    for (const nlohmann::json& line : read_metrics(config.out))
      if (line.contains("loss")) losses.push_back(line["loss"].dump());
    return losses;
  };
  const auto phased = losses("phased", "rms4", "int7", 0), whole = losses("whole", "int7", "none", 0);
  ASSERT_EQ(phased.size(), 20u);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(phased[i] == whole[i], i < 10) << "step " << i + 1;
  EXPECT_EQ(losses("stopped-before", "rms4", "int7", 9), phased);
  EXPECT_EQ(losses("stopped-at", "rms4", "int7", 10), phased);
  EXPECT_EQ(load_model(directory_ / "phased").model->options().recipe.describe(), "rms4");
}

class Recipes : public TrainerTest, public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Recipes, ::testing::Values("fp32", "bf16", "int8", "int7", "rms4", "w4a8"),
                         [](const auto& info) { return info.param; });

TEST_P(Recipes, ThreadsDoNotMatter) {
  for (const int threads : {1, 2}) {
    TrainConfig config = tiny_config(directory_.path(), fmt::format("threads-{}", threads));
    config.recipe = GetParam();
    config.threads = threads;
    config.model = {.layers = 2, .heads = 4, .width = 64, .context = 64, .dropout = 0.1};
    config.batch = 8;
    config.accumulate = 2;
    train(config);
  }
  expect_equal_checkpoints(directory_ / "threads-1/checkpoints/step-20", directory_ / "threads-2/checkpoints/step-20");
  expect_equal_metrics(directory_ / "threads-1", directory_ / "threads-2");
}

// Products so large that libraries would split their sums by threads.
TEST_P(Recipes, ThreadsDoNotMatterToLargeProducts) {
  for (const int threads : {1, 2}) {
    TrainConfig config = tiny_config(directory_.path(), fmt::format("threads-{}", threads));
    config.recipe = GetParam();
    config.threads = threads;
    config.model = {.layers = 1, .heads = 4, .width = 256, .context = 128};
    config.batch = 16;
    config.steps = 2;
    config.schedule.warmup_steps = 0;
    config.data.validation = "";
    train(config);
  }
  expect_equal_checkpoints(directory_ / "threads-1/checkpoints/step-2", directory_ / "threads-2/checkpoints/step-2");
}

TEST_P(Recipes, ResumeIsNeverHavingStopped) {
  const auto make = [&](const char* name) {
    TrainConfig config = tiny_config(directory_.path(), name);
    config.recipe = GetParam();
    config.steps = 40;
    config.eval.every = 10;
    config.model.dropout = 0.1;
    config.data.document_boundaries = true;
    return config;
  };
  TrainConfig straight = make("straight"), resumed = make("resumed");
  train(straight);
  const TrainResult first = train_and_stop_after(resumed, 20);
  EXPECT_EQ(first.outcome, Outcome::kInterrupted);
  EXPECT_THAT(first.message, AllOf(HasSubstr("after step 20 of 40"), HasSubstr("--resume auto")));
  resumed.resume = "auto";
  EXPECT_EQ(train(resumed).outcome, Outcome::kFinished);
  expect_equal_checkpoints(step_path(straight, 40), step_path(resumed, 40));
  expect_equal_metrics(straight.out, resumed.out);
}

TEST_P(Recipes, RecomputationDoesNotMatter) {
  for (const bool recompute : {false, true}) {
    TrainConfig config = tiny_config(directory_.path(), recompute ? "recompute" : "keep");
    config.recipe = GetParam();
    config.recompute = recompute;
    config.model.dropout = 0.1;
    train(config);
  }
  expect_equal_checkpoints(directory_ / "keep/checkpoints/step-20", directory_ / "recompute/checkpoints/step-20");
}

TEST_F(TrainerTest, EvaluationCheckpointsSamplesAndLogsDoNotMatter) {
  TrainConfig quiet = tiny_config(directory_.path(), "quiet"), busy = tiny_config(directory_.path(), "busy");
  quiet.data.validation = "";
  busy.eval = {.every = 3, .batches = 2};
  busy.checkpoint = {.every = 4, .keep = 1};
  busy.sample = {.when = "eval", .prompt = "", .tokens = 5};
  busy.tensorboard = true;
  busy.log.every = 1;
  train(quiet);
  train(busy);
  expect_equal_checkpoints(step_path(quiet, 20), step_path(busy, 20));
}

TEST_F(TrainerTest, ResumingACompleteRunChangesNothing) {
  TrainConfig config = tiny_config(directory_.path());
  config.eval.every = 5;
  train(config);
  const auto before = folder_contents(config.out);
  config.resume = "auto";
  train(config);
  auto after = folder_contents(config.out);
  for (const char* measured : {"summary.json"}) after[measured] = before.at(measured);
  EXPECT_TRUE(before == after);
}

TEST_F(TrainerTest, ResumeAutoStartsWhereThereIsNothing) {
  TrainConfig config = tiny_config(directory_.path());
  config.resume = "auto";
  EXPECT_EQ(train(config).summary.steps, 20);
}

TEST_F(TrainerTest, BranchesOffFromAnotherRunsCheckpoint) {
  TrainConfig config = tiny_config(directory_.path());
  config.checkpoint.every = 10;
  train(config);
  TrainConfig branch = tiny_config(directory_.path(), "branch");
  branch.resume = step_path(config, 10).string();
  train(branch);
  expect_equal_checkpoints(step_path(config, 20), step_path(branch, 20));
  EXPECT_EQ(read_metrics(branch.out).front()["step"], 11);
  config.resume = branch.resume;
  EXPECT_THAT(error_of(config), HasSubstr("step-20 is newer"));
}

TEST_F(TrainerTest, RefusesAFolderThatHoldsARun) {
  const TrainConfig config = tiny_config(directory_.path());
  train(config);
  const auto before = folder_contents(config.out);
  EXPECT_EQ(error_of(config),
            config.out + " already holds a run; go on with it by --resume auto, or choose another --out");
  EXPECT_TRUE(before == folder_contents(config.out));
}

TEST_F(TrainerTest, RefusesToResumeAnotherRun) {
  TrainConfig config = tiny_config(directory_.path());
  train(config);
  const auto before = folder_contents(config.out);
  const std::string from = "cannot resume from " + step_path(config, 20).string() + ": ";
  const auto problem = [&](const std::function<void(TrainConfig&)>& change) {
    TrainConfig changed = config;
    changed.resume = "auto";
    change(changed);
    return error_of(changed);
  };
  EXPECT_EQ(problem([](TrainConfig& c) { c.seed = 4; }), from + "seed is 4, the checkpoint has 3");
  EXPECT_EQ(problem([](TrainConfig& c) { c.model.width = 64; }), from + "model.width is 64, the checkpoint has 32");
  EXPECT_EQ(problem([](TrainConfig& c) { c.model.bias = false; }),
            from + "model.bias is false, the checkpoint has true");
  EXPECT_EQ(problem([](TrainConfig& c) { c.steps = 10; }), from + "steps is 10, the checkpoint has done 20");
  const std::string other = write_tokens(directory_ / "other.tok", 2000, 9).string();
  EXPECT_THAT(problem([&](TrainConfig& c) { c.data.train = {other}; }),
              AllOf(StartsWith(from + "data.train has " + other + " with checksum "), HasSubstr("train.tok with ")));
  EXPECT_TRUE(before == folder_contents(config.out));
}

TEST_F(TrainerTest, DamagedCheckpointsArePassedOver) {
  TrainConfig config = tiny_config(directory_.path());
  config.checkpoint.every = 10;
  train(config);
  const auto damage = [&](std::int64_t step) {
    const std::filesystem::path file = step_path(config, step) / "model.safetensors";
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] ^= 1;
    write_file(file, bytes);
  };
  const std::string straight = read_file(step_path(config, 20) / "model.safetensors");
  damage(20);
  config.resume = "auto";
  train(config);
  EXPECT_TRUE(straight == read_file(step_path(config, 20) / "model.safetensors"));
  damage(10);
  damage(20);
  EXPECT_THAT(error_of(config), HasSubstr("no checkpoint in"));
}

TEST_F(TrainerTest, BadDataIsASentenceAndNothingIsWritten) {
  const auto problem = [&](const std::function<void(TrainConfig&)>& change) {
    TrainConfig config = tiny_config(directory_.path());
    change(config);
    const std::string message = error_of(config);
    EXPECT_FALSE(path_exists(config.out)) << message;
    return message;
  };
  const std::string path = (directory_ / "bad.tok").string();
  const auto bad_train = [&](TrainConfig& c) { c.data.train = {path}; };
  EXPECT_THAT(problem(bad_train), HasSubstr(path));  // missing
  write_file(path, "");
  EXPECT_THAT(problem(bad_train), HasSubstr(path));
  const std::string good = read_file(write_tokens(directory_ / "good.tok"));
  write_file(path, good.substr(0, good.size() - 3));
  EXPECT_THAT(problem(bad_train), HasSubstr(path));
  std::string flipped = good;
  flipped[flipped.size() / 2] ^= 4;
  write_file(path, flipped);
  EXPECT_THAT(problem(bad_train), AllOf(HasSubstr(path), HasSubstr("checksum")));
  EXPECT_THAT(problem([&](TrainConfig& c) { c.data.validation = path; }), HasSubstr(path));
  EXPECT_THAT(problem([](TrainConfig& c) { c.model.context = 1 << 20, c.batch = 1; }), HasSubstr("train.tok"));
  EXPECT_THAT(problem([](TrainConfig& c) { c.model.width = 24, c.model.heads = 2; }), HasSubstr("multiple of 16"));
  data::TokenFileWriter writer(directory_ / "words.tok", {1000, "words", 0});
  writer.append(std::vector<std::int64_t>(500, 7));
  writer.commit();
  EXPECT_THAT(problem([&](TrainConfig& c) { c.data.validation = (directory_ / "words.tok").string(); }),
              HasSubstr("tokenizer 'words' with 1000 tokens, data.train has 'byte' with 257"));
}

TEST_F(TrainerTest, ThreeStepsThatAreNotFiniteEndTheRun) {
  TrainConfig config = tiny_config(directory_.path());
  config.recipe = config.head = "fp32";
  config.optimizer.lr = 1e30;
  config.schedule.warmup_steps = 0;
  config.clip = 0;
  const TrainResult result = train(config);
  EXPECT_EQ(result.outcome, Outcome::kDiverged);
  EXPECT_EQ(result.exit_code(), 1);
  EXPECT_THAT(result.message, HasSubstr("third in a row"));
  const std::vector<nlohmann::json> lines = read_metrics(config.out);
  ASSERT_GE(lines.size(), 4u);
  EXPECT_FALSE(lines.front().contains("skipped"));
  for (std::size_t i = lines.size() - 3; i < lines.size(); ++i) EXPECT_EQ(lines[i]["skipped"], true) << i;
  EXPECT_FALSE(path_exists(std::filesystem::path(config.out) / "checkpoints"));
}

TEST_F(TrainerTest, FullDiskIsASentenceAndEarlierCheckpointsStay) {
  SmallDisk disk(1 << 20);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs takes root";
  TrainConfig config = tiny_config(directory_.path());
  config.out = (disk.path() / "run").string();
  config.checkpoint.every = 2;
  EXPECT_THAT(error_of(config), AllOf(HasSubstr(config.out), HasSubstr("No space left on device")));
  const io::CheckpointStore store(std::filesystem::path(config.out) / "checkpoints");
  const std::vector<std::int64_t> steps = store.steps();
  ASSERT_FALSE(steps.empty());
  for (const std::int64_t step : steps) EXPECT_NO_THROW(store.open(step)) << step;
}

}  // namespace
}  // namespace tessera::train
