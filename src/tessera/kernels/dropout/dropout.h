#pragma once
// Dropout whose mask is a function of (key, step, micro-batch, element i): nothing is stored, backward calls it again.
//
//   y = keep(i) ? x * (1 / (1 - p)) : +0,  keep(i) = uniform_float(word i % 4 of philox(key, {step, micro_batch,
//   high word of i / 4, low word of i / 4})) >= p
// The factor is computed in double and rounded to f32; a bf16 x is widened, multiplied and rounded again.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/base/philox.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct DropoutParams {
  std::int64_t n = 0;
  std::int64_t first = 0;   ///< i of x[0], a multiple of 4096: a part of a tensor gets the mask it has in the whole
  const void* x = nullptr;  ///< [n]
  void* y = nullptr;        ///< [n]; may be x
  FloatType type = FloatType::kF32;
  float p = 0;  ///< probability of zero, in [0, 1)
  PhiloxKey key;
  std::uint32_t step = 0, micro_batch = 0;
};

/// All elements, in parallel.
void dropout(const DropoutParams& params, IsaSet isa = enabled_isa());

/// Elements begin..end-1 in plain C++: what every target must equal bit for bit.
void dropout_reference(const DropoutParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
