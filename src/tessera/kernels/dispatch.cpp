#include "tessera/kernels/dispatch.h"

#include <atomic>

namespace tessera::kernels {
namespace {

std::atomic<std::int64_t> test_limit{-1};

// Asking the CPU takes microseconds on virtual machines, so once.
std::int64_t cpu_targets() {
  static const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets;
}

std::int64_t allowed_targets([[maybe_unused]] IsaSet isa) {
#if HWY_ARCH_X86
  if (isa.avx512_vnni || isa.amx_int8) return HWY_AVX3_DL | HWY_AVX3 | HWY_AVX2;
  if (isa.avx2 || isa.avx_vnni) return HWY_AVX2;
  return 0;
#else
  return HWY_TARGETS;  // the ladder of IsaSet is x86's
#endif
}

}  // namespace

std::int64_t simd_targets(IsaSet isa) {
  return allowed_targets(isa) & cpu_targets() & test_limit.load(std::memory_order_relaxed);
}

std::string_view simd_target_name(std::int64_t target) { return hwy::TargetName(target); }

void limit_simd_targets_for_test(std::int64_t mask) { test_limit.store(mask, std::memory_order_relaxed); }

}  // namespace tessera::kernels
