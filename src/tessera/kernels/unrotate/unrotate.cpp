// Chunk by chunk: masked load and Hadamard transform into a buffer in L1, then store, or differentiate GELU.
#include "tessera/kernels/unrotate/unrotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/unrotate/unrotate.cpp"
#include <hwy/foreach_target.h>

#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/codes-inl.h"
#include "tessera/kernels/simd/gelu-inl.h"
#include "tessera/kernels/simd/hadamard-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

// v = the `n` columns at `t`, masked and rotated; ragged ends (without rotation) are filled up with zeros.
template <typename T>
HWY_INLINE void rotate_masked(const T* t, const std::uint8_t* mask, std::size_t n, std::size_t block, float* v) {
  if (n % kGroup != 0) {
    T tail[kHadamardChunk];
    std::uint8_t tail_mask[kHadamardChunk / 8];
    const std::size_t padded = n + kGroup - n % kGroup;
    copy_padded(t, n, tail, padded);
    if (mask) copy_padded(mask, (n + 7) / 8, tail_mask, padded / 8);
    return rotate_masked(tail, mask ? tail_mask : nullptr, padded, block, v);
  }
  if (mask) {
    const auto load = [t, mask](std::size_t i)
                          HWY_ATTR { return hn::IfThenElseZero(load_bits(mask, i), load_row(t + i)); };
    hadamard_chunk(load, n, block, v);
  } else {
    hadamard_chunk([t](std::size_t i) HWY_ATTR { return load_row(t + i); }, n, block, v);
  }
}

template <typename T>
HWY_INLINE void write(const float* v, std::size_t n, const T* gelu_x, T* y) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F32 value = hn::Load(F32Tag(), v + i);
    store_row(gelu_x ? gelu_of<true>(load_row(gelu_x + i), value) : value, y + i);
  }
  if (i == n) return;
  T tail[kLanes];
  copy_padded(gelu_x ? gelu_x + i : nullptr, gelu_x ? n - i : 0, tail, kLanes);
  const F32 value = hn::Load(F32Tag(), v + i);
  store_row(gelu_x ? gelu_of<true>(load_row(tail), value) : value, tail);
  copy_padded(tail, n - i, y + i, n - i);
}

template <typename From, typename To>
void unrotate_typed(const UnrotateParams& p, std::size_t begin, std::size_t end) {
  const auto cols = static_cast<std::size_t>(p.cols);
  for (std::size_t r = begin; r < end; ++r) {
    const From* t = static_cast<const From*>(p.t.data) + r * static_cast<std::size_t>(p.t.stride);
    To* y = static_cast<To*>(p.y.data) + r * static_cast<std::size_t>(p.y.stride);
    const To* gelu_x = p.gelu_x ? static_cast<const To*>(p.gelu_x) + r * static_cast<std::size_t>(p.y.stride) : nullptr;
    const std::uint8_t* mask = p.mask ? p.mask + r * ((cols + 7) / 8) : nullptr;
    for (std::size_t c = 0; c < cols; c += kHadamardChunk) {
      alignas(64) float v[kHadamardChunk];
      const std::size_t n = HWY_MIN(kHadamardChunk, cols - c);
      rotate_masked(t + c, mask ? mask + c / 8 : nullptr, n, static_cast<std::size_t>(p.block), v);
      write(v, n, gelu_x ? gelu_x + c : nullptr, y + c);
    }
  }
}

}  // namespace

void unrotate_rows(const UnrotateParams& p, std::int64_t begin, std::int64_t end) {
  const auto first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end);
  const bool from_f32 = p.t.type == FloatType::kF32, to_f32 = p.y.type == FloatType::kF32;
  if (from_f32 && to_f32) return unrotate_typed<float, float>(p, first, last);
  if (from_f32) return unrotate_typed<float, std::uint16_t>(p, first, last);
  if (to_f32) return unrotate_typed<std::uint16_t, float>(p, first, last);
  unrotate_typed<std::uint16_t, std::uint16_t>(p, first, last);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(unrotate_rows);

void unrotate(const UnrotateParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(unrotate_rows), isa, &unrotate_reference);
  const std::int64_t grain = 1 + 16384 / (params.cols + 1);
  parallel_for(0, params.rows, grain, [&](std::int64_t begin, std::int64_t end) { run(params, begin, end); });
}

}  // namespace tessera::kernels
#endif
