#pragma once
// metrics.jsonl: one JSON object per line, written whole and at once, so that a killed run leaves at most one broken
// last line, which resuming drops.
//   {"step", "loss", "lr", "grad_norm", "tokens", "tokens_per_s", "step_s", "intra_bytes", "inter_bytes",
//    "peak_rss_bytes"}       a step; loss and grad_norm are null and "skipped" is true when it was not finite
//   {"step", "val_loss", "val_tokens", "eval_s"}     an evaluation
// summary.json: Summary.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tessera::train {

struct StepMetrics {
  std::int64_t step = 0;         ///< from 1
  double loss = 0;               ///< nats per token, mean over the step's micro-batches
  double lr = 0, grad_norm = 0;  ///< norm before clipping
  std::int64_t tokens = 0;       ///< inputs of this step, over all ranks
  double step_s = 0;
  std::int64_t intra_bytes = 0, inter_bytes = 0;  ///< sent in this step, by link class
  std::int64_t peak_rss_bytes = 0;
  bool skipped = false;  ///< loss or gradient was not finite: no update
  double tokens_per_s() const { return step_s > 0 ? static_cast<double>(tokens) / step_s : 0; }
};

struct EvaluationMetrics {
  std::int64_t step = 0, tokens = 0;
  double val_loss = 0, eval_s = 0;
};

struct Summary {
  std::int64_t steps = 0;
  std::optional<double> val_loss = {};
  double tokens_per_s = 0;  ///< median over the steps
  std::int64_t peak_rss_bytes = 0, intra_bytes_per_step = 0, inter_bytes_per_step = 0;
  std::string recipe;
  std::int64_t world = 1;
};

/// What summary.json takes from metrics.jsonl; over the whole run, however often it was resumed.
struct RunStatistics {
  double tokens_per_s = 0;                                          ///< median over the steps
  std::int64_t peak_rss_bytes = 0;                                  ///< largest
  std::int64_t intra_bytes_per_step = 0, inter_bytes_per_step = 0;  ///< means
};
RunStatistics read_statistics(const std::filesystem::path& metrics_path);

nlohmann::ordered_json to_json(const StepMetrics& metrics);
nlohmann::ordered_json to_json(const EvaluationMetrics& metrics);
nlohmann::ordered_json to_json(const Summary& summary);

/// Appends lines to metrics.jsonl.
class MetricsLog {
 public:
  /// Create `path`, or with `resume_step` keep the lines of its steps up to that one and go on behind them. Throws
  /// Error when the file exists and resume_step is not given.
  MetricsLog(std::filesystem::path path, std::optional<std::int64_t> resume_step);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// Write one line with one system call; throws Error with the path, e.g. for a full disk.
  void append(const nlohmann::ordered_json& line);
  /// Put what was appended on the disk.
  void sync();

 private:
  [[noreturn]] void fail_with_errno(const char* action) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Peak resident set of this process so far.
std::int64_t peak_rss_bytes();

}  // namespace tessera::train
