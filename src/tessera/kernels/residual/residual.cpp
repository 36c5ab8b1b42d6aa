// A vector at a time; memory is the bound.
#include "tessera/kernels/residual/residual.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/residual/residual.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

template <typename T>
void residual_typed(const ResidualParams& p, std::int64_t begin, std::int64_t end) {
  const auto n = static_cast<std::size_t>(end - begin);
  const float* x = p.x + begin;
  const T* y = static_cast<const T*>(p.y) + begin;
  float* out = p.out + begin;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store_row(hn::Add(load_row(x + i), load_row(y + i)), out + i);
  if (i == n) return;
  float tail_x[kLanes];
  T tail_y[kLanes];
  copy_padded(x + i, n - i, tail_x, kLanes);
  copy_padded(y + i, n - i, tail_y, kLanes);
  store_row(hn::Add(load_row(tail_x), load_row(tail_y)), tail_x);
  copy_padded(tail_x, n - i, out + i, n - i);
}

}  // namespace

void residual_elements(const ResidualParams& p, std::int64_t begin, std::int64_t end) {
  (p.type == FloatType::kF32 ? residual_typed<float> : residual_typed<std::uint16_t>)(p, begin, end);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(residual_elements);

void residual(const ResidualParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(residual_elements), isa, &residual_reference);
  constexpr std::int64_t kChunk = 16384;  // below it a thread costs more than it saves
  parallel_for(0, div_ceil(params.n, kChunk), 1, [&](std::int64_t begin, std::int64_t end) {
    run(params, begin * kChunk, std::min(params.n, end * kChunk));
  });
}

}  // namespace tessera::kernels
#endif
