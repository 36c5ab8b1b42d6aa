#pragma once
// What the user sees while training: a bar that redraws itself in place on a terminal, plain lines otherwise.
//   step 120/1000 [████░░░░░░░░] loss 2.413  18.2k tok/s  val 2.520  1m02s left
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "tessera/train/metrics.h"

namespace tessera::train {

/// "18.2k", "950"
std::string format_rate(double per_second);
/// "8s", "1m02s", "3h05m"
std::string format_duration(double seconds);

struct ProgressView {
  std::int64_t step = 0, steps = 0;
  double loss = 0, tokens_per_s = 0;
  std::optional<double> val_loss = {}, seconds_left = {};
};
/// One line of at most `width` columns, without a line break: parts are left out, the bar first, when it is narrow.
std::string progress_line(const ProgressView& view, int width);

class Progress {
 public:
  /// Writes to `stream`: bar when it is a terminal, else a line every `log_every` steps (0: none).
  Progress(std::FILE* stream, std::int64_t first_step, std::int64_t steps, std::int64_t log_every);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const StepMetrics& metrics);
  void evaluation(const EvaluationMetrics& metrics);
  /// A line of text that stays, above the bar.
  void message(const std::string& text);

 private:
  void draw();
  void clear();

  std::FILE* stream_;
  bool terminal_;
  bool drawn_ = false;
  std::int64_t log_every_;
  double last_draw_s_ = 0, smooth_step_s_ = 0;
  ProgressView view_;
};

}  // namespace tessera::train
