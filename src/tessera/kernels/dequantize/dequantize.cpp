// Packed codes are unpacked chunk by chunk into L1; codes then become floats, a vector at a time.
#include "tessera/kernels/dequantize/dequantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/dequantize/dequantize.cpp"
#include <hwy/foreach_target.h>

#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/codes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kChunk = 512;

HWY_INLINE F32 load_codes(const std::int8_t* codes) {
  const hn::Rebind<std::int8_t, F32Tag> d8;
  return hn::ConvertTo(F32Tag(), hn::PromoteTo(I32Tag(), hn::LoadU(d8, codes)));
}

template <typename T>
HWY_INLINE void scale_codes(const std::int8_t* codes, std::size_t n, float scale, T* y) {
  const F32 factor = hn::Set(F32Tag(), scale);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_row(hn::Mul(load_codes(codes + i), factor), y + i);
  if (i == n) return;
  std::int8_t tail_codes[kLanes];
  T tail[kLanes];
  copy_padded(codes + i, n - i, tail_codes, kLanes);
  store_row(hn::Mul(load_codes(tail_codes), factor), tail);
  copy_padded(tail, n - i, y + i, n - i);
}

template <typename T>
void dequantize_typed(const DequantizeParams& p, std::size_t begin, std::size_t end) {
  const auto cols = static_cast<std::size_t>(p.cols), row_bytes = (cols + 1) / 2;
  for (std::size_t r = begin; r < end; ++r) {
    T* y = static_cast<T*>(p.y.data) + r * static_cast<std::size_t>(p.y.stride);
    if (!p.int4_packed) {
      scale_codes(p.codes + r * static_cast<std::size_t>(p.code_stride), cols, p.scales[r], y);
      continue;
    }
    for (std::size_t c = 0; c < cols; c += kChunk) {
      alignas(64) std::int8_t codes[kChunk];
      const std::size_t n = HWY_MIN(kChunk, cols - c);
      unpack_int4(p.int4_packed + r * row_bytes + c / 2, (n + 1) / 2, codes);
      scale_codes(codes, n, p.scales[r], y + c);
    }
  }
}

}  // namespace

void dequantize_rows(const DequantizeParams& p, std::int64_t begin, std::int64_t end) {
  const auto first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end);
  if (p.y.type == FloatType::kF32) {
    dequantize_typed<float>(p, first, last);
  } else {
    dequantize_typed<std::uint16_t>(p, first, last);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(dequantize_rows);

void dequantize(const DequantizeParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(dequantize_rows), isa, &dequantize_reference);
  const std::int64_t grain = 1 + 16384 / (params.cols + 1);
  parallel_for(0, params.rows, grain, [&](std::int64_t begin, std::int64_t end) { run(params, begin, end); });
}

}  // namespace tessera::kernels
#endif
