#pragma once
// Learning rate of a step: linear warm-up, then constant, linear or cosine to min_lr = min_lr_fraction * peak_lr.
//
//   step < warmup:   peak_lr * (step + 1) / warmup
//   after:           x = (step - warmup) / (total - warmup), at most 1
//                    constant  peak_lr
//                    linear    min_lr + (peak_lr - min_lr) * (1 - x)
//                    cosine    min_lr + (peak_lr - min_lr) * (1 + cos(pi x)) / 2
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::optim {

enum class ScheduleShape { kConstant, kLinear, kCosine };

/// "constant", "linear", "cosine".
std::string_view schedule_name(ScheduleShape shape);
/// Parse one of those names; throws Error that lists them.
ScheduleShape parse_schedule(std::string_view name);

struct ScheduleOptions {
  std::string name = "cosine";
  double peak_lr = 1e-3;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 1;
  double min_lr_fraction = 0.1;  ///< in [0, 1]; constant ignores it
};

class Schedule {
 public:
  /// Error: unknown name, peak_lr not finite or negative, more warm-up than steps, a fraction outside [0, 1].
  explicit Schedule(ScheduleOptions options);

  /// Learning rate of `step`, counted from 0; from total_steps on the last value. Error: negative step.
  float lr_at(std::int64_t step) const;

  const ScheduleOptions& options() const { return options_; }

 private:
  ScheduleOptions options_;
  ScheduleShape shape_;
};

}  // namespace tessera::optim
