// A vector at a time; memory is the bound, so each direction reads and writes once.
#include "tessera/kernels/gelu/gelu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/gelu/gelu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/gelu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

template <bool kBackward, typename T>
void gelu_typed(const GeluParams& p, std::int64_t begin, std::int64_t end) {
  const auto n = static_cast<std::size_t>(end - begin);
  const T* x = static_cast<const T*>(p.x) + begin;
  const T* dy = kBackward ? static_cast<const T*>(p.dy) + begin : x;
  T* out = static_cast<T*>(p.out) + begin;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_row(gelu_of<kBackward>(load_row(x + i), load_row(dy + i)), out + i);
  if (i == n) return;
  T tail_x[kLanes], tail_dy[kLanes];
  copy_padded(x + i, n - i, tail_x, kLanes);
  copy_padded(dy + i, n - i, tail_dy, kLanes);
  store_row(gelu_of<kBackward>(load_row(tail_x), load_row(tail_dy)), tail_x);
  copy_padded(tail_x, n - i, out + i, n - i);
}

}  // namespace

void gelu_elements(const GeluParams& p, std::int64_t begin, std::int64_t end) {
  const bool f32 = p.type == FloatType::kF32;
  if (p.dy == nullptr) return (f32 ? gelu_typed<false, float> : gelu_typed<false, std::uint16_t>)(p, begin, end);
  (f32 ? gelu_typed<true, float> : gelu_typed<true, std::uint16_t>)(p, begin, end);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(gelu_elements);

void gelu(const GeluParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(gelu_elements), isa, &gelu_reference);
  constexpr std::int64_t kChunk = 16384;  // below it a thread costs more than it saves
  parallel_for(0, div_ceil(params.n, kChunk), 1, [&](std::int64_t begin, std::int64_t end) {
    run(params, begin * kChunk, std::min(params.n, end * kChunk));
  });
}

}  // namespace tessera::kernels
#endif
