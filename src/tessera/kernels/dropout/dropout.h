#pragma once
// Dropout whose mask is a function of (key, step, micro-batch, element): nothing is stored, backward calls it again.
//
//   y[i] = x[i] * (keep(i) ? 1 / (1 - p) : 0),  keep(i) = uniform_float(word i % 4 of philox(key, {step, micro_batch,
//   high word of i / 4, low word of i / 4})) >= p
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/base/philox.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct DropoutParams {
  std::int64_t n = 0;
  const void* x = nullptr;  ///< [n]
  void* y = nullptr;        ///< [n]; may be x
  FloatType type = FloatType::kF32;
  float p = 0;              ///< probability of zero, in [0, 1)
  PhiloxKey key;
  std::uint32_t step = 0, micro_batch = 0;
};
void dropout(const DropoutParams& params, IsaSet isa = enabled_isa());

}  // namespace tessera::kernels
