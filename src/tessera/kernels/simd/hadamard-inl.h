// Block-diagonal Hadamard transform of a chunk of a row, orthonormal, in the canonical order: butterflies in increasing
// stride, then one multiplication by float(1 / sqrt(block)).
#include <hwy/highway.h>

#include <cmath>

#include "tessera/kernels/simd/float_rows-inl.h"

#if defined(TESSERA_KERNELS_SIMD_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_HADAMARD_INL_H_
#undef TESSERA_KERNELS_SIMD_HADAMARD_INL_H_
#else
#define TESSERA_KERNELS_SIMD_HADAMARD_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kHadamardChunk = 256;  ///< the largest block; every block divides it

// One stage inside a vector: lane i becomes x[i] + x[i + stride] or x[i - stride] - x[i]. `sign` has the lanes of the
// second kind; x ^ sign + partner is either, in one rounding.
HWY_INLINE F32 butterfly(F32 x, F32 partner, F32 sign) { return hn::Add(partner, hn::Xor(x, sign)); }

HWY_INLINE F32 sign_lanes(std::size_t stride) {
  const U32Tag d;
  const auto plain = hn::Eq(hn::And(hn::Iota(d, 0), hn::Set(d, static_cast<std::uint32_t>(stride))), hn::Zero(d));
  return hn::BitCast(F32Tag(), hn::IfThenZeroElse(plain, hn::Set(d, 0x80000000u)));
}

HWY_INLINE F32 butterflies_inside(F32 x) {
  x = butterfly(x, hn::Shuffle2301(x), sign_lanes(1));
  x = butterfly(x, hn::Shuffle1032(x), sign_lanes(2));
#if HWY_MAX_BYTES >= 32
  x = butterfly(x, hn::SwapAdjacentBlocks(x), sign_lanes(4));
#endif
#if HWY_MAX_BYTES >= 64
  x = butterfly(x, hn::ConcatLowerUpper(F32Tag(), x, x), sign_lanes(8));
#endif
  return x;
}

/// Transform kVectors * kLanes consecutive elements as far as they go in registers; `load(i)` gives lanes i.. .
template <std::size_t kVectors, typename Load>
HWY_INLINE void hadamard_tile(const Load& load, std::size_t first, F32 factor, float* HWY_RESTRICT t) {
  F32 v[kVectors];
  HWY_UNROLL(8)
  for (std::size_t i = 0; i < kVectors; ++i) v[i] = butterflies_inside(load(first + i * kLanes));
  HWY_UNROLL(3)
  for (std::size_t stride = 1; stride < kVectors; stride *= 2) {
    HWY_UNROLL(8)
    for (std::size_t i = 0; i < kVectors; ++i) {
      if (i & stride) continue;
      const F32 a = v[i], b = v[i + stride];
      v[i] = hn::Add(a, b);
      v[i + stride] = hn::Sub(a, b);
    }
  }
  HWY_UNROLL(8)
  for (std::size_t i = 0; i < kVectors; ++i) hn::Store(hn::Mul(v[i], factor), F32Tag(), t + first + i * kLanes);
}

template <std::size_t kVectors, typename Load>
HWY_INLINE void hadamard_tiles(const Load& load, std::size_t n, F32 factor, float* HWY_RESTRICT t) {
  for (std::size_t i = 0; i < n; i += kVectors * kLanes) hadamard_tile<kVectors>(load, i, factor, t);
}

/// Write the transform of `n` elements to `t` (aligned to a vector). `n` is a multiple of `block`, or with block 1 of
/// kGroup (pad with zeros). Blocks larger than a tile of 8 vectors finish, and are scaled, in memory.
template <typename Load>
HWY_INLINE void hadamard_chunk(const Load& load, std::size_t n, std::size_t block, float* HWY_RESTRICT t) {
  constexpr std::size_t kTile = 8 * kLanes;
  const F32 factor = hn::Set(F32Tag(), static_cast<float>(1.0 / std::sqrt(static_cast<double>(block))));
  const F32 one = hn::Set(F32Tag(), 1.0f);
  if (block == 1) {
    for (std::size_t i = 0; i < n; i += kLanes) hn::Store(load(i), F32Tag(), t + i);
    return;
  }
  switch (HWY_MIN(block, kTile) / kLanes) {
    case 1:
      return hadamard_tiles<1>(load, n, factor, t);
    case 2:
      return hadamard_tiles<2>(load, n, factor, t);
    case 4:
      hadamard_tiles<4>(load, n, factor, t);
      break;
    default:
      hadamard_tiles<8>(load, n, block > kTile ? one : factor, t);
      break;
  }
  for (std::size_t stride = kTile; stride < block; stride *= 2) {
    const F32 scale = 2 * stride == block ? factor : one;
    for (std::size_t first = 0; first < n; first += 2 * stride) {
      for (std::size_t i = first; i < first + stride; i += kLanes) {
        const F32 a = hn::Load(F32Tag(), t + i), b = hn::Load(F32Tag(), t + i + stride);
        hn::Store(hn::Mul(hn::Add(a, b), scale), F32Tag(), t + i);
        hn::Store(hn::Mul(hn::Sub(a, b), scale), F32Tag(), t + i + stride);
      }
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
