#include "tessera/base/part_timers.h"

#include <chrono>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// Nanoseconds, so that threads can add to them.
std::array<std::atomic<std::int64_t>, kParts> totals{};

// The parts that are open on this thread, and when the innermost one last began or went on.
struct OpenParts {
  std::vector<Part> stack;
  Clock::time_point since;
};
OpenParts& open_parts() {
  static thread_local OpenParts parts;
  return parts;
}

bool is_whole(Part part) { return part == Part::kWeightCodes || part == Part::kHeadLoss; }

void count_until(OpenParts& open, Clock::time_point now) {
  // The outermost whole part takes all; without one, the innermost part.
  Part part = open.stack.back();
  for (auto outer = open.stack.rbegin(); outer != open.stack.rend(); ++outer)
    if (is_whole(*outer)) part = *outer;
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(now - open.since);
  totals[static_cast<std::size_t>(part)].fetch_add(elapsed.count(), std::memory_order_relaxed);
}

}  // namespace

std::string_view part_name(Part part) {
  switch (part) {
    case Part::kRotateQuantize:
      return "rotate and quantize rows";
    case Part::kFoldQuantize:
      return "quantize gradients";
    case Part::kPackPanels:
      return "pack panels";
    case Part::kIntMatmul:
      return "integer products";
    case Part::kUnrotate:
      return "unrotate";
    case Part::kDenseMatmul:
      return "floating-point products";
    case Part::kWeightCodes:
      return "codes of the weights";
    case Part::kLayerNorm:
      return "layer norm";
    case Part::kAttention:
      return "attention";
    case Part::kGelu:
      return "gelu";
    case Part::kEmbedding:
      return "embedding";
    case Part::kHeadLoss:
      return "head and loss";
    case Part::kGradientNorm:
      return "gradient norm";
    case Part::kOptimizer:
      return "optimizer";
  }
  return "?";
}

void enable_part_timers(bool enabled) {
  if (enabled)
    for (auto& total : totals) total.store(0, std::memory_order_relaxed);
  part_timers_internal::enabled.store(enabled, std::memory_order_relaxed);
}

PartSeconds part_seconds() {
  PartSeconds seconds{};
  for (std::size_t i = 0; i < seconds.size(); ++i)
    seconds[i] = static_cast<double>(totals[i].load(std::memory_order_relaxed)) * 1e-9;
  return seconds;
}

void begin_part(Part part) {
  OpenParts& open = open_parts();
  const Clock::time_point now = Clock::now();
  if (!open.stack.empty()) count_until(open, now);
  open.stack.push_back(part);
  open.since = now;
}

void end_part() {
  OpenParts& open = open_parts();
  TESSERA_DCHECK(!open.stack.empty());
  const Clock::time_point now = Clock::now();
  count_until(open, now);
  open.stack.pop_back();
  open.since = now;
}

}  // namespace tessera
