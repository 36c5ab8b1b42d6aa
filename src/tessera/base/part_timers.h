#pragma once
// Where the time of a training step goes: scopes around its parts, off unless a benchmark turns them on.
// Time is exclusive: a scope inside another one is taken off the outer one's time, unless the outer one is whole.
#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class Part {
  kRotateQuantize,
  kFoldQuantize,
  kPackPanels,
  kIntMatmul,
  kUnrotate,
  kDenseMatmul,
  kWeightCodes,  // whole
  kLayerNorm,
  kAttention,
  kGelu,
  kEmbedding,
  kHeadLoss,  // whole
  kGradientNorm,
  kOptimizer
};
inline constexpr int kParts = static_cast<int>(Part::kOptimizer) + 1;

/// "integer products": as tables show it.
std::string_view part_name(Part part);

/// Seconds of each part, in the order of the enumerators.
using PartSeconds = std::array<double, kParts>;

namespace part_timers_internal {
inline std::atomic<bool> enabled{false};
}

inline bool part_timers_enabled() { return part_timers_internal::enabled.load(std::memory_order_relaxed); }

/// Turn the scopes on or off; turning them on starts from zero. No scope may be open.
void enable_part_timers(bool enabled);
PartSeconds part_seconds();

/// What a scope does where a C++ scope does not fit: a part that begins and ends in different functions. Begin and end
/// on one thread, properly nested, only while the timers are enabled.
void begin_part(Part part);
void end_part();

/// Counts its lifetime for `part`. Scopes belong outside parallel regions: they measure the thread that opens them.
class ScopedPart {
 public:
  explicit ScopedPart(Part part) : open_(part_timers_enabled()) {
    if (open_) begin_part(part);
  }
  ~ScopedPart() {
    if (open_) end_part();
  }
  ScopedPart(const ScopedPart&) = delete;
  ScopedPart& operator=(const ScopedPart&) = delete;

 private:
  bool open_;
};

}  // namespace tessera
