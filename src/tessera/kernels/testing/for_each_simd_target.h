#pragma once
// Runs a test body once per Highway target of this CPU, with that target as the only one, and names it on failure.
#include <gtest/gtest.h>

#include <string>

#include "tessera/kernels/simd_targets.h"

namespace tessera::kernels::testing {

/// Call `body(isa)` for each target; `isa` selects it. The covered targets are printed, so a missing one shows.
template <typename Body>
void for_each_simd_target(Body&& body) {
  const std::int64_t all = simd_targets(detected_isa());
  std::string covered;
  for (std::int64_t left = all; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    SCOPED_TRACE(simd_target_name(target));
    covered.append(" ").append(simd_target_name(target));
    limit_simd_targets_for_test(target);
    body(detected_isa());
    limit_simd_targets_for_test(-1);
  }
  ::testing::Test::RecordProperty("simd_targets", covered);
  if (all == 0) GTEST_SKIP() << "this CPU has none of the SIMD targets; only the reference runs";
}

}  // namespace tessera::kernels::testing
