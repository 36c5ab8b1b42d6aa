// residual as its header says it, element by element.
#include "tessera/kernels/residual/residual.h"

namespace tessera::kernels {

void residual_reference(const ResidualParams& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i)
    p.out[i] = p.x[i] + (p.type == FloatType::kF32 ? static_cast<const float*>(p.y)[i]
                                                   : from_bf16(static_cast<const std::uint16_t*>(p.y)[i]));
}

}  // namespace tessera::kernels
