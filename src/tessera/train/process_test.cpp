// Training as a process that is stopped and killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/testing/temporary_directory.h"
#include "tessera/io/checkpoint_store.h"
#include "tessera/train/model_io.h"
#include "tessera/train/testing/child_process.h"
#include "tessera/train/testing/tiny_run.h"
#include "tessera/train/trainer.h"

namespace tessera::train {
namespace {

using tessera::testing::ChildProcess;
using tessera::testing::expect_equal_checkpoints;
using tessera::testing::expect_equal_metrics;
using tessera::testing::read_metrics;
using tessera::testing::TemporaryDirectory;
using tessera::testing::tiny_config;
using ::testing::AllOf;
using ::testing::HasSubstr;

bool has_steps(const TrainConfig& config, std::int64_t more_than_bytes = 0) {
  std::error_code missing;
  const auto size = std::filesystem::file_size(std::filesystem::path(config.out) / "metrics.jsonl", missing);
  return !missing && static_cast<std::int64_t>(size) > more_than_bytes;
}

class Signals : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Both, Signals, ::testing::Values(SIGINT, SIGTERM),
                         [](const auto& info) { return info.param == SIGINT ? "Interrupt" : "Terminate"; });

TEST_P(Signals, FinishTheStepSaveAndSayHowToGoOn) {
  const TemporaryDirectory directory;
  TrainConfig config = tiny_config(directory.path());
  config.steps = 1000000;
  ChildProcess child(config, directory / "log");
  ASSERT_TRUE(child.wait_until([&] { return has_steps(config); })) << read_file(directory / "log");
  child.signal(GetParam());
  EXPECT_EQ(child.wait(), 128 + GetParam());
  EXPECT_THAT(read_file(directory / "log"), AllOf(HasSubstr("tessera train --config "), HasSubstr("--resume auto")));
  const io::CheckpointStore store(std::filesystem::path(config.out) / "checkpoints");
  EXPECT_THAT(store.steps(), ::testing::ElementsAre(read_metrics(config.out).back()["step"].get<std::int64_t>()));
  EXPECT_NO_THROW(load_model(config.out));
}

TEST(Kill, AtThirtyMomentsLosesNothingButTheStepsSinceTheLastCheckpoint) {
  const TemporaryDirectory directory;
  TrainConfig config = tiny_config(directory.path());
  config.steps = 1000000;
  config.schedule.name = "constant";  // so that a run of fewer steps is the beginning of this one
  config.checkpoint = {.every = 1, .keep = 2};
  config.resume = "auto";
  const io::CheckpointStore store(std::filesystem::path(config.out) / "checkpoints");
  std::int64_t last = 0;
  for (std::uint32_t i = 0; i < 30; ++i) {
    ChildProcess child(config, directory / "log");
    // Time counts from the first new step, so that every child trains; a step with its checkpoint takes milliseconds.
    ASSERT_TRUE(child.wait_until([&] { return store.latest().value_or(0) > last; })) << read_file(directory / "log");
    const std::uint32_t wait = philox(philox_key(1, "kill", "test"), {i, 0, 0, 0})[0] % 40000;
    std::this_thread::sleep_for(std::chrono::microseconds(wait));
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait(), -SIGKILL) << read_file(directory / "log");
    const std::vector<std::int64_t> steps = store.steps();
    ASSERT_FALSE(steps.empty());
    for (const std::int64_t step : steps) EXPECT_NO_THROW(load_model(store.path(step))) << step;
    EXPECT_GE(steps.back(), last);
    last = steps.back();
  }
  // What thirty killed processes made is what one makes that nobody disturbs.
  config.steps = last + 1;
  Trainer(config).run();
  TrainConfig straight = tiny_config(directory.path(), "straight");
  straight.schedule.name = "constant";
  straight.steps = last + 1;
  Trainer(straight).run();
  expect_equal_checkpoints(store.path(last + 1),
                           std::filesystem::path(straight.out) / fmt::format("checkpoints/step-{}", last + 1));
  // The last run evaluates at its end, as the straight one does.
  expect_equal_metrics(config.out, straight.out);
}

TEST(Processes, OneRunFolderOneProcess) {
  const TemporaryDirectory directory;
  TrainConfig config = tiny_config(directory.path());
  config.steps = 1000000;
  ChildProcess child(config, directory / "log");
  ASSERT_TRUE(child.wait_until([&] { return has_steps(config); })) << read_file(directory / "log");
  config.resume = "auto";
  ChildProcess second(config, directory / "log2");
  EXPECT_EQ(second.wait(), 2);
  EXPECT_THAT(read_file(directory / "log2"), HasSubstr("another process is training in"));
}

}  // namespace
}  // namespace tessera::train
