#include "tessera/train/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera::train {
namespace {

using tessera::testing::SmallDisk;
using tessera::testing::TemporaryDirectory;
using ::testing::HasSubstr;

StepMetrics step_metrics(std::int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.5;
  metrics.lr = 1e-3;
  metrics.grad_norm = 0.75;
  metrics.tokens = 100;
  metrics.step_s = 0.5 * static_cast<double>(step);
  metrics.peak_rss_bytes = 1000 * step;
  return metrics;
}

std::vector<std::string> keys_of(const nlohmann::ordered_json& json) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  return keys;
}

TEST(Metrics, StepHasTheKeysOfTheFormat) {
  const nlohmann::ordered_json json = to_json(step_metrics(3));
  EXPECT_THAT(keys_of(json), ::testing::ElementsAre("step", "loss", "lr", "grad_norm", "tokens", "tokens_per_s",
                                                    "step_s", "intra_bytes", "inter_bytes", "peak_rss_bytes"));
  EXPECT_EQ(json["tokens_per_s"].get<double>(), 100 / 1.5);
}

TEST(Metrics, NumbersThatAreNotFiniteAreNull) {
  StepMetrics metrics = step_metrics(1);
  metrics.loss = std::numeric_limits<double>::infinity();
  metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  metrics.skipped = true;
  const auto json = nlohmann::json::parse(to_json(metrics).dump());
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
  EXPECT_EQ(json["skipped"], true);
}

TEST(Metrics, SummaryHasTheKeysOfTheFormat) {
  const Summary summary;
  EXPECT_THAT(keys_of(to_json(summary)),
              ::testing::ElementsAre("steps", "val_loss", "tokens_per_s", "peak_rss_bytes", "intra_bytes_per_step",
                                     "inter_bytes_per_step", "recipe", "world"));
  EXPECT_TRUE(to_json(summary)["val_loss"].is_null());
}

TEST(MetricsLog, RefusesAnExistingFile) {
  const TemporaryDirectory directory;
  write_file(directory / "metrics.jsonl", "{}\n");
  EXPECT_THROW(MetricsLog(directory / "metrics.jsonl", std::nullopt), Error);
  EXPECT_EQ(read_file(directory / "metrics.jsonl"), "{}\n");
}

TEST(MetricsLog, ResumeKeepsWholeLinesUpToItsStep) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "metrics.jsonl";
  std::string kept;
  for (int step = 1; step <= 3; ++step) kept += to_json(step_metrics(step)).dump() + "\n";
  kept += to_json(EvaluationMetrics{3, 10, 2.0, 0.1}).dump() + "\n";
  const std::string later = to_json(step_metrics(4)).dump() + "\n";
  write_file(path, kept + later + later.substr(0, 20));
  {
    MetricsLog log(path, 3);
    EXPECT_EQ(read_file(path), kept);
    log.append(to_json(step_metrics(4)));
    log.sync();
  }
  EXPECT_EQ(read_file(path), kept + later);
  { MetricsLog log(path, 0); }
  EXPECT_EQ(read_file(path), "");
}

TEST(MetricsLog, FullDiskIsASentenceAndLeavesWholeLines) {
  SmallDisk disk(64 << 10);
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small tmpfs takes root";
  const std::filesystem::path path = disk.path() / "metrics.jsonl";
  MetricsLog log(path, std::nullopt);
  std::string message;
  for (int step = 1; step < 10000 && message.empty(); ++step) {
    try {
      log.append(to_json(step_metrics(step)));
    } catch (const Error& error) {
      message = error.what();
    }
  }
  EXPECT_EQ(message, "cannot write " + path.string() + ": No space left on device");
  EXPECT_EQ(read_file(path).back(), '\n');
}

TEST(RunStatistics, AreOfAllStepLines) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "metrics.jsonl";
  std::string text = to_json(EvaluationMetrics{1, 10, 2.0, 0.1}).dump() + "\n";
  for (const int step : {1, 4, 2}) {
    StepMetrics metrics = step_metrics(step);
    metrics.intra_bytes = 10 * step;
    metrics.inter_bytes = 3;
    text += to_json(metrics).dump() + "\n";
  }
  write_file(path, text);
  const RunStatistics statistics = read_statistics(path);
  EXPECT_EQ(statistics.tokens_per_s, 100.0);  // of 200, 100 and 50
  EXPECT_EQ(statistics.peak_rss_bytes, 4000);
  EXPECT_EQ(statistics.intra_bytes_per_step, 23);
  EXPECT_EQ(statistics.inter_bytes_per_step, 3);
  write_file(path, "");
  EXPECT_EQ(read_statistics(path).tokens_per_s, 0);
}

TEST(PeakRss, GrowsWithMemory) {
  const std::int64_t before = peak_rss_bytes();
  EXPECT_GT(before, 0);
  const std::vector<char> block(64 << 20, 1);
  EXPECT_GE(peak_rss_bytes(), before + (block.back() == 1 ? 32 << 20 : 0));
}

}  // namespace
}  // namespace tessera::train
