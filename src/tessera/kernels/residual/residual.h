#pragma once
// A branch's output joins the residual stream: out = x + y, x and out f32, y f32 or bf16. One pass; torch's sum of two
// types first writes a converted copy of y.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct ResidualParams {
  std::int64_t n = 0;
  const float* x = nullptr;          ///< [n]
  const void* y = nullptr;           ///< [n]
  FloatType type = FloatType::kF32;  ///< of y; bf16 is widened before the one addition
  float* out = nullptr;              ///< [n]; may be x
};

/// All elements, in parallel.
void residual(const ResidualParams& params, IsaSet isa = enabled_isa());

/// Elements begin..end-1 in plain C++: what every target must equal bit for bit.
void residual_reference(const ResidualParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
