#include "tessera/optim/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/nearest_name.h"

namespace tessera::optim {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"constant", "linear", "cosine"};  // in the order of the enum

}  // namespace

std::string_view schedule_name(ScheduleShape shape) { return kNames[static_cast<std::size_t>(shape)]; }

ScheduleShape parse_schedule(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  TESSERA_CHECK(found != kNames.end(), "unknown schedule '{}'{}; known: constant, linear, cosine", name,
                did_you_mean(name, kNames));
  return static_cast<ScheduleShape>(found - kNames.begin());
}

Schedule::Schedule(ScheduleOptions options) : options_(std::move(options)), shape_(parse_schedule(options_.name)) {
  const ScheduleOptions& o = options_;
  TESSERA_CHECK(std::isfinite(o.peak_lr) && o.peak_lr >= 0,
                "the peak learning rate is {}, expected a number that is at least 0", o.peak_lr);
  TESSERA_CHECK(o.total_steps >= 0, "the schedule has {} steps, expected at least 0", o.total_steps);
  TESSERA_CHECK(o.warmup_steps >= 0 && o.warmup_steps <= o.total_steps,
                "{} warm-up steps do not fit a schedule of {} steps", o.warmup_steps, o.total_steps);
  TESSERA_CHECK(o.min_lr_fraction >= 0 && o.min_lr_fraction <= 1,
                "the smallest learning rate is {} of the peak, expected a fraction from 0 to 1", o.min_lr_fraction);
}

float Schedule::lr_at(std::int64_t step) const {
  TESSERA_CHECK(step >= 0, "the schedule has no step {}", step);
  const double peak = options_.peak_lr, min = options_.min_lr_fraction * peak;
  const std::int64_t warmup = options_.warmup_steps, total = options_.total_steps;
  if (step < warmup) return static_cast<float>(peak * static_cast<double>(step + 1) / static_cast<double>(warmup));
  if (shape_ == ScheduleShape::kConstant) return static_cast<float>(peak);
  if (step >= total) return static_cast<float>(min);
  const double x = static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
  const double left = shape_ == ScheduleShape::kLinear ? 1 - x : (1 + std::cos(std::numbers::pi * x)) / 2;
  return static_cast<float>(min + (peak - min) * left);
}

}  // namespace tessera::optim
