#include "bench/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/process.h"
#include "tessera/base/check.h"

namespace tessera::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Run>
std::string message_of(Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

constexpr StepModel kTiny{.layers = 1, .heads = 2, .width = 32, .context = 16, .vocabulary = 40, .batch = 2};

TEST(StepTest, CaseNamesThePresetOrTheSizes) {
  StepModel model = preset_model("gpt2");
  EXPECT_EQ(model.case_name(), "gpt2 4x1024");
  model.batch = 8;
  EXPECT_EQ(model.case_name(), "gpt2 8x1024");
  model.layers = 24;
  EXPECT_EQ(model.case_name(), "768 wide, 24 deep, 8x1024");
  EXPECT_EQ(preset_model("small").case_name(), "small 12x64");
}

TEST(StepTest, CountsIntegerOperationsOfIntegerRecipesOnly) {
  EXPECT_EQ(kTiny.block_operations(), 6.0 * 32 * 12 * 32 * 32);
  EXPECT_EQ(kTiny.head_operations(), 6.0 * 32 * 32 * 40);
  const auto operations = [](const char* recipe, const char* head) {
    return OurStep{recipe, head, "fp32"}.integer_operations(kTiny);
  };
  EXPECT_EQ(operations("bf16", "fp32"), 0);
  EXPECT_EQ(operations("int8", "bf16"), kTiny.block_operations());
  EXPECT_EQ(operations("rms4", "w4a8"), kTiny.block_operations() + kTiny.head_operations());
}

TEST(StepTest, ReadsWhatAProcessPrints) {
  const StepResult one = parse_sample(
      "x", R"({"step_s": [3, 1], "loss": [4.5, 4], "peak_rss_bytes": 10, "parts": {"a": 1}, "parts_step_s": 2})");
  EXPECT_THAT(one.step_s, ElementsAre(3, 1));
  EXPECT_EQ(one.first_loss, 4.5);
  EXPECT_EQ(one.last_loss, 4);
  StepResult other = one;
  other.step_s = {8};
  other.peak_rss_bytes = 12;
  other.parts["a"] = 2;
  other.parts_step_s = 4;
  const StepResult both = merge_samples({one, other});
  EXPECT_EQ(both.median_s(), 3);
  EXPECT_EQ(both.peak_rss_bytes, 12);
  EXPECT_EQ(both.parts.at("a"), 1.5);
  EXPECT_EQ(both.parts_step_s, 3);
}

TEST(StepTest, NamesTheContenderThatFails) {
  EXPECT_THAT(message_of([] { parse_sample("torch eager fp32", "Killed"); }),
              HasSubstr("torch eager fp32 printed 'Killed', expected one line of JSON"));
  const char* diverged = R"({"step_s": [1], "loss": [null], "peak_rss_bytes": 1, "parts": {}, "parts_step_s": 0})";
  EXPECT_EQ(message_of([&] { parse_sample("w4a8, head bf16", diverged); }), "w4a8, head bf16 reached a loss of null");
  const StepContender failing{
      .name = "ours", .model = kTiny, .command = {"sh", "-c", "echo one >&2; echo two >&2; exit 3"}};
  EXPECT_EQ(message_of([&] { run_step_contenders({failing}, 1); }), "the process of ours ended with exit code 3: two");
}

TEST(StepTest, ContendersTakeTurnsWithTheirThreads) {
  const auto contender = [](const char* name, std::int64_t threads) {
    const std::string line = R"({\"step_s\":[$OMP_NUM_THREADS],\"loss\":[1],\"peak_rss_bytes\":1,\"parts\":{},)";
    return StepContender{.name = name,
                         .model = kTiny,
                         .threads = threads,
                         .command = {"sh", "-c", "echo \"" + line + R"(\"parts_step_s\":0}")"}};
  };
  testing::internal::CaptureStderr();
  const auto results = run_step_contenders({contender("a", 1), contender("b", 2)}, 2);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "round 1/2  a: 1 s per step\nround 1/2  b: 2 s per step\n"
            "round 2/2  a: 1 s per step\nround 2/2  b: 2 s per step\n");
  EXPECT_THAT(results[0].step_s, ElementsAre(1, 1));
  EXPECT_THAT(results[1].step_s, ElementsAre(2, 2));
}

TEST(StepTest, RowsCompareTimeAndMemory) {
  const StepContender ours{.name = "w4a8", .model = kTiny}, peer{.name = "torch", .model = kTiny};
  const StepResult fast{.step_s = {1, 2, 3}, .peak_rss_bytes = 5}, slow{.step_s = {4}, .peak_rss_bytes = 7};
  const std::vector<BenchRow> rows = step_rows({ours}, {fast}, {peer}, {slow});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].ratio(), 2);
  const auto json = rows_json(rows);
  EXPECT_EQ(json[0]["bench"], "step");
  EXPECT_EQ(json[0]["case"], "32 wide, 1 deep, 2x16");
  EXPECT_EQ(json[0]["ours_peak_bytes"], 5);
  EXPECT_EQ(json[0]["peer_peak_bytes"], 7);
}

TEST(StepTest, PeersTrainTheSameModel) {
  const std::string python = default_python();
  if (message_of([&] { check_python(python); }) != "(no error)") GTEST_SKIP() << python << " has no torch";
  const StepRun run{.warmup = 0, .steps = 3, .rounds = 1, .threads = 1};
  for (const char* peer : {"eager-fp32", "eager-bf16"}) {
    const auto results = run_step_contenders({peer_contender(peer, python, kTiny, run)}, 1);
    EXPECT_NEAR(results[0].first_loss, std::log(40.0), 0.1) << peer;  // small weights: an even guess
    EXPECT_LT(results[0].last_loss, results[0].first_loss) << peer;
    EXPECT_EQ(results[0].step_s.size(), 3u);
    EXPECT_GT(results[0].peak_rss_bytes, 1 << 20);
  }
}

TEST(ProcessTest, GivesOutputsStatusAndEnvironment) {
  ::setenv("TESSERA_TEST_DROPPED", "1", 1);
  const ProcessResult result = run_process({"sh", "-c", "echo $A-$TESSERA_TEST_DROPPED; echo no >&2; kill -9 $$"},
                                           {{"A", "b"}}, {"TESSERA_TEST_"});
  EXPECT_EQ(result.status, -9);
  EXPECT_EQ(result.out, "b-\n");
  EXPECT_EQ(result.err, "no\n");
  EXPECT_EQ(message_of([] { run_process({"/nowhere/x"}); }), "cannot start /nowhere/x: No such file or directory");
}

TEST(ProcessTest, LastLine) {
  EXPECT_EQ(last_line(""), "");
  EXPECT_EQ(last_line("\n \n"), "");
  EXPECT_EQ(last_line("one"), "one");
  EXPECT_EQ(last_line("one\ntwo \n\n"), "two");
}

}  // namespace
}  // namespace tessera::cli
