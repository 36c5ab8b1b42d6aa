// dropout as its header says it, element by element.
#include "tessera/kernels/dropout/dropout.h"

namespace tessera::kernels {

void dropout_reference(const DropoutParams& p, std::int64_t begin, std::int64_t end) {
  const auto factor = static_cast<float>(1 / (1 - static_cast<double>(p.p)));
  for (std::int64_t i = begin; i < end; ++i) {
    const auto quad = static_cast<std::uint64_t>(p.first + i) / 4;
    const PhiloxBlock words = philox(
        p.key, {p.step, p.micro_batch, static_cast<std::uint32_t>(quad >> 32), static_cast<std::uint32_t>(quad)});
    const bool keep = uniform_float(words[static_cast<std::size_t>(i % 4)]) >= p.p;
    if (p.type == FloatType::kF32) {
      static_cast<float*>(p.y)[i] = keep ? static_cast<const float*>(p.x)[i] * factor : 0.0f;
    } else {
      const float x = from_bf16(static_cast<const std::uint16_t*>(p.x)[i]);
      static_cast<std::uint16_t*>(p.y)[i] = to_bf16(keep ? x * factor : 0.0f);
    }
  }
}

}  // namespace tessera::kernels
