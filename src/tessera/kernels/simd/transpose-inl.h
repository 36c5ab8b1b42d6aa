// Byte tiles turned by 90 degrees, so that codes made row by row are stored column by column in whole cache lines.
#include <hwy/highway.h>

#include <cstdint>

#include "tessera/kernels/simd/float_rows-inl.h"

#if defined(TESSERA_KERNELS_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_TRANSPOSE_INL_H_
#undef TESSERA_KERNELS_SIMD_TRANSPOSE_INL_H_
#else
#define TESSERA_KERNELS_SIMD_TRANSPOSE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kTile = 64;  ///< rows and columns of a tile

// One step: pairs of vectors 8 apart interleave in units of Unit; four steps transpose 16 x 16 bytes in each block.
template <typename Unit, typename V>
HWY_INLINE void interleave_step(const V (&in)[16], V (&out)[16]) {
  const hn::DFromV<V> d8;
  const hn::Repartition<Unit, decltype(d8)> d;
  HWY_UNROLL(8)
  for (std::size_t i = 0; i < 8; ++i) {
    const auto a = hn::BitCast(d, in[i]), b = hn::BitCast(d, in[i + 8]);
    out[2 * i] = hn::BitCast(d8, hn::InterleaveLower(d, a, b));
    out[2 * i + 1] = hn::BitCast(d8, hn::InterleaveUpper(d, a, b));
  }
}

/// to[c][n] = from[n][c]; both 64-byte aligned.
HWY_INLINE void transpose_tile(const std::int8_t (*from)[kTile], std::int8_t (*to)[kTile]) {
  const hn::CappedTag<std::uint8_t, kTile> d;
  using V = hn::Vec<decltype(d)>;
  constexpr std::size_t kBytes = hn::MaxLanes(d);
  for (std::size_t n = 0; n < kTile; n += 16) {
    for (std::size_t c = 0; c < kTile; c += kBytes) {
      V a[16], b[16];
      HWY_UNROLL(16)
      for (std::size_t i = 0; i < 16; ++i) a[i] = hn::Load(d, reinterpret_cast<const std::uint8_t*>(from[n + i] + c));
      // Interleaving bytes of vectors 8 apart, four times, brings byte k of all 16 vectors together, in order.
      interleave_step<std::uint8_t>(a, b);
      interleave_step<std::uint8_t>(b, a);
      interleave_step<std::uint8_t>(a, b);
      interleave_step<std::uint8_t>(b, a);
      alignas(64) std::uint8_t blocks[kBytes];
      HWY_UNROLL(16)
      for (std::size_t i = 0; i < 16; ++i) {
        hn::Store(a[i], d, blocks);
        for (std::size_t block = 0; block < kBytes / 16; ++block) {
          const hn::FixedTag<std::uint8_t, 16> d16;
          hn::Store(hn::Load(d16, blocks + 16 * block), d16,
                    reinterpret_cast<std::uint8_t*>(to[c + 16 * block + i] + n));
        }
      }
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
