#pragma once
// Which Highway targets an IsaSet stands for; for SIMD families (through dispatch.h) and their tests.
#include <cstdint>
#include <string_view>

#include "tessera/base/isa.h"

namespace tessera::kernels {

/// Bits (HWY_AVX2, ...) of the targets that `isa` allows and this CPU has; 0: the reference.
std::int64_t simd_targets(IsaSet isa);

/// "AVX2", "AVX3_DL", "NEON", ... of one bit.
std::string_view simd_target_name(std::int64_t target);

/// For tests of one target: let simd_targets return only bits of `mask`, on all threads; -1 ends it.
void limit_simd_targets_for_test(std::int64_t mask);

}  // namespace tessera::kernels
