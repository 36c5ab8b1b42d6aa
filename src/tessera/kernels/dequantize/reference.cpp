// dequantize as its header says it, one element after the other.
#include "tessera/base/int4.h"
#include "tessera/kernels/dequantize/dequantize.h"

namespace tessera::kernels {

void dequantize_reference(const DequantizeParams& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t c = 0; c < p.cols; ++c) {
      const int code =
          p.int4_packed ? int4_get(p.int4_packed + r * int4_bytes(p.cols), c) : p.codes[r * p.code_stride + c];
      const float value = static_cast<float>(code) * p.scales[r];
      if (p.y.type == FloatType::kF32) {
        static_cast<float*>(p.y.data)[r * p.y.stride + c] = value;
      } else {
        static_cast<std::uint16_t*>(p.y.data)[r * p.y.stride + c] = to_bf16(value);
      }
    }
  }
}

}  // namespace tessera::kernels
