// Threads share chunks of 4096 elements; inside a chunk the high word of i / 4 is constant.
#include "tessera/kernels/dropout/dropout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/dropout/dropout.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kDropoutChunk = 4096;

class Mask {
 public:
  // uniform_float(word) >= p is (word >> 8) >= p * 2^24, and the left side is an integer.
  HWY_INLINE explicit Mask(float p)
      : threshold_(hn::Set(I32Tag(), static_cast<std::int32_t>(std::ceil(static_cast<double>(p) * 0x1p24)))),
        factor_(hn::Set(F32Tag(), static_cast<float>(1 / (1 - static_cast<double>(p))))) {}

  HWY_INLINE F32 operator()(U32 words, F32 x) const {
    const I32 draws = hn::BitCast(I32Tag(), hn::ShiftRight<8>(words));
    const auto dropped = hn::RebindMask(F32Tag(), hn::Lt(draws, threshold_));
    return hn::IfThenZeroElse(dropped, hn::Mul(x, factor_));
  }

 private:
  I32 threshold_;
  F32 factor_;
};

template <typename T>
HWY_INLINE void mask_elements(const Mask& mask, const PhiloxStream& stream, std::uint32_t quad, const T* x, T* y) {
  U32 first, second;
  stream.draw(quad, first, second);
  const F32 y0 = mask(first, load_row(x)), y1 = mask(second, load_row(x + kLanes));
  store_row(y0, y);
  store_row(y1, y + kLanes);
}

template <typename T>
void dropout_typed(const DropoutParams& p, std::int64_t begin, std::int64_t end) {
  const Mask mask(p.p);
  for (std::int64_t start = begin; start < end; start = (start / kDropoutChunk + 1) * kDropoutChunk) {
    const auto n = static_cast<std::size_t>(std::min((start / kDropoutChunk + 1) * kDropoutChunk, end) - start);
    const auto quad = static_cast<std::uint64_t>(p.first + start) / 4;
    const PhiloxStream stream(p.key, p.step, p.micro_batch, static_cast<std::uint32_t>(quad >> 32));
    const auto quad_at = [quad](std::size_t i) { return static_cast<std::uint32_t>(quad + i / 4); };
    const T* x = static_cast<const T*>(p.x) + start;
    T* y = static_cast<T*>(p.y) + start;
    std::size_t i = 0;
    for (; i + kPhiloxElements <= n; i += kPhiloxElements) mask_elements(mask, stream, quad_at(i), x + i, y + i);
    if (i == n) continue;
    T tail[kPhiloxElements];
    copy_padded(x + i, n - i, tail, kPhiloxElements);
    mask_elements(mask, stream, quad_at(i), tail, tail);
    copy_padded(tail, n - i, y + i, n - i);
  }
}

}  // namespace

// `begin` is a multiple of 4.
void dropout_elements(const DropoutParams& p, std::int64_t begin, std::int64_t end) {
  if (p.type == FloatType::kF32) {
    dropout_typed<float>(p, begin, end);
  } else {
    dropout_typed<std::uint16_t>(p, begin, end);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(dropout_elements);

void dropout(const DropoutParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(dropout_elements), isa, &dropout_reference);
  constexpr std::int64_t kChunk = 4096;
  parallel_for(0, div_ceil(params.n, kChunk), 1, [&](std::int64_t begin, std::int64_t end) {
    run(params, begin * kChunk, std::min(params.n, end * kChunk));
  });
}

}  // namespace tessera::kernels
#endif
