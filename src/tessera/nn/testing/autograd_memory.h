#pragma once
// Counts the bytes that torch's CPU allocator hands out and takes back on this thread: what stays allocated after a
// forward pass, beyond its output, is what autograd holds.
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace tessera::nn::testing {

class LiveBytes : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, std::int64_t size, std::size_t /*total*/, std::size_t /*reserved*/,
                         c10::Device /*device*/) override {
    bytes += size;
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t bytes = 0;
};

/// Counts between construction and destruction.
class AllocationScope {
 public:
  AllocationScope() : counter_(std::make_shared<LiveBytes>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}
  std::int64_t live_bytes() const { return counter_->bytes; }

 private:
  std::shared_ptr<LiveBytes> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace tessera::nn::testing
