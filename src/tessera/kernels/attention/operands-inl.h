// Operands of attention's tile products. A "word" is an f32, or a pair of bf16 in the bits of one:
//   rows    [n][depth]          the depth is the head: pairs lie as in memory
//   panels  [n / 32][depth][32] rows turned, 32 of them side by side
//   blended [n or n / 2][width] the depth is the rows: pairs are of two rows, columns padded to 32
// Per-target include guard: foreach_target.h re-includes this file once per target.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "tessera/kernels/attention/tile.h"
#include "tessera/kernels/exp.h"
#include "tessera/kernels/simd/float_rows-inl.h"

#if defined(TESSERA_KERNELS_ATTENTION_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_ATTENTION_OPERANDS_INL_H_
#undef TESSERA_KERNELS_ATTENTION_OPERANDS_INL_H_
#else
#define TESSERA_KERNELS_ATTENTION_OPERANDS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rounded to bf16, in the low half.
HWY_INLINE U32 bf16_of(F32 v) {
  const U32Tag d;
  const U32 bits = hn::BitCast(d, v), high = hn::ShiftRight<16>(bits);
  const U32 rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7fffu)), hn::And(high, hn::Set(d, 1u))));
  const auto is_nan = hn::RebindMask(d, hn::IsNaN(v));
  return hn::IfThenElse(is_nan, hn::Or(high, hn::Set(d, 0x40u)), rounded);
}
HWY_INLINE U32 bf16_of(const std::uint16_t* p) {
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  return hn::PromoteTo(U32Tag(), hn::LoadU(d16, p));
}
HWY_INLINE F32 pair_of(U32 first, U32 second) {
  return hn::BitCast(F32Tag(), hn::Or(first, hn::ShiftLeft<16>(second)));
}

/// The exponential of cross_entropy.h with FMA; |a| < 87, smaller ones give 0.
HWY_INLINE F32 exp_fast(F32 a) {
  const F32Tag d;
  const F32 round = hn::Set(d, kExp.round);
  const F32 t = hn::MulAdd(a, hn::Set(d, kExp.log2e), round), n = hn::Sub(t, round);
  const F32 r = hn::NegMulAdd(n, hn::Set(d, kExp.ln2_low), hn::NegMulAdd(n, hn::Set(d, kExp.ln2_high), a));
  F32 q = hn::Set(d, kExp.c[0]);
  for (std::size_t i = 1; i < kExp.c.size(); ++i) q = hn::MulAdd(q, r, hn::Set(d, kExp.c[i]));
  const F32 mantissa = hn::Add(hn::MulAdd(q, hn::Mul(r, r), r), hn::Set(d, 1.0f));
  const U32 exponent = hn::ShiftLeft<23>(hn::Add(hn::BitCast(U32Tag(), t), hn::Set(U32Tag(), 127u)));
  const F32 result = hn::Mul(mantissa, hn::BitCast(d, exponent));
  return hn::IfThenZeroElse(hn::Lt(a, hn::Set(d, kExp.smallest)), result);
}

/// Lanes of the vector at column `c` that are before column `n`.
HWY_INLINE hn::Mask<F32Tag> lanes_before(std::size_t c, std::size_t n) {
  return hn::FirstN(F32Tag(), n > c ? std::min(n - c, kLanes) : 0);
}

template <bool kPairs>
constexpr std::size_t words(std::size_t depth) {
  return kPairs ? depth / 2 : depth;
}

/// `n` rows of `size` elements as rows of words, then zeros up to row `padded`.
template <bool kPairs, typename T>
HWY_INLINE void pack_rows(const T* from, std::size_t stride, std::size_t n, std::size_t padded, std::size_t size,
                          float* to) {
  const std::size_t width = words<kPairs>(size);
  for (std::size_t r = 0; r < n; ++r) {
    if constexpr (kPairs) {
      std::memcpy(to + r * width, from + r * stride, size * sizeof(T));
    } else {
      for (std::size_t c = 0; c < size; c += kLanes) store_row(load_row(from + r * stride + c), to + r * width + c);
    }
  }
  std::fill(to + n * width, to + padded * width, 0.0f);
}

/// Rows of words turned into panels; `n` a multiple of 32.
HWY_INLINE void turn_rows(const float* rows, std::size_t n, std::size_t width, float* to) {
  for (std::size_t first = 0; first < n; first += kTileColumns, rows += kTileColumns * width)
    for (std::size_t w = 0; w < width; ++w, to += kTileColumns)
      for (std::size_t j = 0; j < kTileColumns; ++j) to[j] = rows[j * width + w];
}

/// `n` rows of `size` elements blended, zeros up to row `padded` (even) and column `width`.
template <bool kPairs, typename T>
HWY_INLINE void pack_blended(const T* from, std::size_t stride, std::size_t n, std::size_t padded, std::size_t size,
                             std::size_t width, float* to) {
  constexpr std::size_t kStep = kPairs ? 2 : 1;
  for (std::size_t r = 0; r < padded; r += kStep, to += width) {
    if (r >= n) {
      std::fill(to, to + width, 0.0f);
      continue;
    }
    const T* row = from + r * stride;
    for (std::size_t c = 0; c < size; c += kLanes) {
      if constexpr (kPairs) {
        store_row(pair_of(bf16_of(row + c), r + 1 < n ? bf16_of(row + stride + c) : hn::Zero(U32Tag())), to + c);
      } else {
        store_row(load_row(row + c), to + c);
      }
    }
    std::fill(to + size, to + width, 0.0f);
  }
}

/// Sum of x[c] * y[c].
template <typename T>
HWY_INLINE float dot(const T* x, const T* y, std::size_t n) {
  F32 sum = hn::Zero(F32Tag());
  for (std::size_t c = 0; c < n; c += kLanes) sum = hn::MulAdd(load_row(x + c), load_row(y + c), sum);
  return hn::GetLane(hn::SumOfLanes(F32Tag(), sum));
}

/// to[c] = x[c] * factor.
template <typename T>
HWY_INLINE void scale_row(const float* x, float factor, std::size_t n, T* to) {
  const F32 factor_v = hn::Set(F32Tag(), factor);
  for (std::size_t c = 0; c < n; c += kLanes) store_row(hn::Mul(load_row(x + c), factor_v), to + c);
}

/// TileArgs' product of f32 words where no generated code runs: two rows of sums at a time.
template <bool kTurned>
void simd_tile(const TileArgs* t) {
  constexpr std::size_t kVectors = static_cast<std::size_t>(kTileColumns) / kLanes, kRows = 2;
  const F32Tag d;
  const auto* a = static_cast<const float*>(t->a);
  const auto* b = static_cast<const float*>(t->b);
  const std::int64_t word = sizeof(float), a_stride = t->a_stride / word, b_stride = t->b_stride / word;
  const std::int64_t row_stride = kTurned ? 1 : a_stride, step_stride = kTurned ? a_stride : 1;
  for (std::int64_t r = 0; r < kTileRows; r += kRows) {
    float* c = t->c + r * (t->c_stride / word);
    float* c_next = c + t->c_stride / word;
    F32 sum[kVectors], next[kVectors];
    for (std::size_t j = 0; j < kVectors; ++j) {
      sum[j] = t->add ? load_row(c + j * kLanes) : hn::Zero(d);
      next[j] = t->add ? load_row(c_next + j * kLanes) : hn::Zero(d);
    }
    for (std::int64_t k = 0; k < t->steps; ++k) {
      const F32 x = hn::Set(d, a[r * row_stride + k * step_stride]);
      const F32 y = hn::Set(d, a[(r + 1) * row_stride + k * step_stride]);
      for (std::size_t j = 0; j < kVectors; ++j) {
        const F32 column = load_row(b + k * b_stride + static_cast<std::int64_t>(j * kLanes));
        sum[j] = hn::MulAdd(x, column, sum[j]);
        next[j] = hn::MulAdd(y, column, next[j]);
      }
    }
    for (std::size_t j = 0; j < kVectors; ++j) {
      store_row(sum[j], c + j * kLanes);
      store_row(next[j], c_next + j * kLanes);
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
