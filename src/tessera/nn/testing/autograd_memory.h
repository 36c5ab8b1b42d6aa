#pragma once
// Counts the bytes that torch's CPU allocator hands out and takes back on this thread: what stays allocated after a
// forward pass, beyond its output, is what autograd holds.
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace tessera::nn::testing {

class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, std::int64_t size, std::size_t /*total*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    bytes += size;
    if (size > 0) allocations.push_back(size);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t bytes = 0;
  std::vector<std::int64_t> allocations;  // bytes of each, in order
};

/// Counts between construction and destruction.
class AllocationScope {
 public:
  AllocationScope() : counter_(std::make_shared<LiveBytes>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  std::int64_t live_bytes() const { return counter_->bytes; }
  /// Bytes of every allocation of at least `least` bytes, ascending.
  std::vector<std::int64_t> allocations(std::int64_t least) const {
    std::vector<std::int64_t> sizes;
    for (const std::int64_t size : counter_->allocations)
      if (size >= least) sizes.push_back(size);
    std::sort(sizes.begin(), sizes.end());
    return sizes;
  }

 private:
  std::shared_ptr<LiveBytes> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace tessera::nn::testing
