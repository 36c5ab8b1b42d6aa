// What each command does when all is well, and Ctrl-C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.h"
#include "tessera/base/file.h"

namespace tessera::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

TEST(RunTest, PrepareReports) {
  const ScratchFolder folder;
  const auto result = run_program({"prepare", fixture().text.string(), "--out", folder.path().string()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("train.tok"));
  EXPECT_THAT(result.out, HasSubstr("validation.tok"));
  EXPECT_EQ(run_program({"prepare", fixture().text.string(), "--out", folder.path().string(), "--overwrite"}).exit_code,
            0);
}

TEST(RunTest, FlagsOverrideTheFile) {
  const ScratchFolder folder;
  const fs::path config = folder / "run.toml";
  write_file(config, "steps = 9\nseed = 5\n[model]\nwidth = 64\n");
  Arguments arguments = train_arguments(fixture().tokens, folder / "run");
  arguments.insert(arguments.begin() + 1, {"--config", config.string()});
  const auto result = run_program(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto resolved = json::parse(run_program({"inspect", (folder / "run" / "config.toml").string(), "--json"}).out);
  EXPECT_EQ(resolved["config"]["steps"], 4);
  EXPECT_EQ(resolved["config"]["seed"], 5);
  EXPECT_EQ(resolved["config"]["model.width"], 32);
}

TEST(RunTest, EvalAsTextAndJson) {
  const auto text = run_program({"eval", fixture().run.string()});
  ASSERT_EQ(text.exit_code, 0) << text.err;
  for (const char* word : {"loss", "perplexity", "bits per byte", "accuracy"}) EXPECT_THAT(text.out, HasSubstr(word));
  const auto result = json::parse(
      run_program({"eval", fixture().checkpoint.string(), "--data", fixture().validation.string(), "--json"}).out);
  EXPECT_EQ(result["step"], 4);
  EXPECT_NEAR(result["perplexity"].get<double>(), std::exp(result["loss"].get<double>()), 1e-9);
  // Tokens that end a document are targets without bytes.
  const double bits_per_token = result["loss"].get<double>() / std::log(2.0);
  EXPECT_GE(result["bits_per_byte"].get<double>(), bits_per_token * (1 - 1e-12));
  EXPECT_LT(result["bits_per_byte"].get<double>(), bits_per_token * 1.1);
  EXPECT_GT(result["tokens"], 0);
}

TEST(RunTest, GenerateRepeatsItselfAndReadsStandardInput) {
  const Arguments base = {"generate", fixture().run.string(), "--tokens", "40", "--seed", "3"};
  const auto with = [&](Arguments more) {
    Arguments all = base;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const auto first = run_program(with({"--prompt", "the quick"}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, StartsWith("the quick"));
  EXPECT_EQ(run_program(with({"--prompt", "-"}), "the quick").out, first.out);
  EXPECT_EQ("the quick" + run_program(with({"--prompt", "the quick", "--no-echo"})).out, first.out);
  EXPECT_EQ(run_program(with({"--prompt", "the quick", "--threads", "1"})).out, first.out);
}

TEST(RunTest, InspectEveryKind) {
  const std::pair<fs::path, std::string> cases[] = {
      {fixture().tokens, "token file"},
      {fixture().checkpoint / "model.safetensors", "safetensors"},
      {fixture().checkpoint, "checkpoint"},
      {fixture().run, "run"},
      {fixture().run / "config.toml", "configuration"},
      {fixture().run / "metrics.jsonl", "metrics"},
      {fixture().run / "summary.json", "json"},
  };
  for (const auto& [path, kind] : cases) {
    const auto text = run_program({"inspect", path.string()});
    EXPECT_EQ(text.exit_code, 0) << path << text.err;
    EXPECT_NE(text.out, "");
    EXPECT_EQ(json::parse(run_program({"inspect", path.string(), "--json"}).out)["kind"], kind);
  }
}

TEST(RunTest, InspectShowsTheWeightErrorOfEveryLayer) {
  const auto weights = [](Arguments more) {
    Arguments all = {"inspect", fixture().checkpoint.string(), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return json::parse(run_program(all).out)["weights"];
  };
  const json own = weights({}), int8 = weights({"--recipe", "int8"});
  ASSERT_EQ(own.size(), 2u * 4u);  // two blocks: QKV, attention output, MLP up and down
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_THAT(own[i]["format"].get<std::string>(), StartsWith("int4, Hadamard "));
    EXPECT_GT(own[i]["snr_db"], 15);
    EXPECT_GT(int8[i]["snr_db"], own[i]["snr_db"]);
  }
}

TEST(RunTest, BenchWritesItsRows) {
  const ScratchFolder folder;
  const std::string file = (folder / "rows.json").string();
  const auto result =
      run_program({"bench", "gemm", "--shape", "65x64x48", "--rounds", "2", "--threads", "1", "--json", file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("huge pages on"));
  std::size_t cases = 0, means = 0;
  for (const json& row : json::parse(read_file(file))) {
    EXPECT_EQ(row["bench"], "gemm");
    EXPECT_NEAR(row["ratio"].get<double>(), row["peer_median_s"].get<double>() / row["ours_median_s"].get<double>(),
                1e-9);
    ++(row["case"] == "geomean" ? means : cases);
  }
  EXPECT_GE(cases, 3u);
  EXPECT_EQ(cases, means);
}

TEST(RunTest, BenchStepWritesContendersWithTheirParts) {
  const ScratchFolder folder;
  const std::string file = (folder / "rows.json").string();
  const auto result = run_program({"bench",     "step", "--layers",  "1",    "--width",      "32",   "--heads",  "2",
                                   "--context", "16",   "--batch",   "2",    "--vocabulary", "40",   "--recipe", "w4a8",
                                   "--head",    "bf16", "--head",    "w4a8", "--peer",       "none", "--rounds", "2",
                                   "--steps",   "3",    "--threads", "1",    "--json",       file});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("part of the step"));
  const json rows = json::parse(read_file(file));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["name"], "w4a8, head bf16");
  EXPECT_EQ(rows[1]["name"], "w4a8, head w4a8");
  constexpr double kBlocks = 6.0 * 32 * 12 * 32 * 32, kHead = 6.0 * 32 * 32 * 40;
  EXPECT_EQ(rows[0]["integer_operations"], kBlocks);
  EXPECT_EQ(rows[1]["integer_operations"], kBlocks + kHead);
  for (const json& row : rows) {
    EXPECT_EQ(row["bench"], "step contender");
    EXPECT_EQ(row["case"], "32 wide, 1 deep, 2x16");
    EXPECT_EQ(row["threads"], 1);
    EXPECT_EQ(row["step_s"].size(), 2u * 3u);
    EXPECT_NEAR(row["tokens_per_s"].get<double>() * row["median_s"].get<double>(), 32, 1e-9);
    EXPECT_GT(row["peak_rss_bytes"], 1 << 20);
    EXPECT_LT(row["last_loss"], row["first_loss"]);
    for (const char* part : {"integer products", "attention", "rotate and quantize rows", "layer norm", "head and loss", "optimizer"})
      EXPECT_GT(row["parts"][part], 0) << part;
  }
}

bool has_checkpoint(const fs::path& run) {
  const fs::path folder = run / "checkpoints";
  if (!fs::exists(folder)) return false;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("step-")) return true;
  return false;
}

TEST(RunTest, InterruptSavesAndSaysHowToGoOn) {
  const ScratchFolder folder, outputs;
  Arguments arguments = train_arguments(fixture().tokens, folder / "run");
  arguments[std::find(arguments.begin(), arguments.end(), "--steps") - arguments.begin() + 1] = "1000000";
  Program program(arguments, outputs.path());
  // Any checkpoint will do: only the newest are kept, and small steps are over within milliseconds.
  while (!has_checkpoint(folder / "run")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  program.signal(SIGINT);
  const auto result = program.wait();
  EXPECT_EQ(result.exit_code, 130) << result.err;
  EXPECT_THAT(result.out, HasSubstr("--resume auto"));
  EXPECT_EQ(run_program({"inspect", (folder / "run").string()}).exit_code, 0);
}

TEST(RunTest, InterruptEndsGeneration) {
  const ScratchFolder outputs;
  Program program({"generate", fixture().run.string(), "--tokens", "100000000", "--past-end"}, outputs.path());
  while (!fs::exists(outputs / "stdout") || fs::file_size(outputs / "stdout") == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  program.signal(SIGINT);
  EXPECT_EQ(program.wait().exit_code, 130);
}

}  // namespace
}  // namespace tessera::test
