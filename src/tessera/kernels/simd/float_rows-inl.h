// f32 and bf16 rows as vectors of f32, at most 16 lanes. bf16 is stored exactly as to_bf16 of types.h does.
// Per-target include guard: foreach_target.h re-includes this file once per target.
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "tessera/kernels/types.h"

#if defined(TESSERA_KERNELS_SIMD_FLOAT_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_FLOAT_ROWS_INL_H_
#undef TESSERA_KERNELS_SIMD_FLOAT_ROWS_INL_H_
#else
#define TESSERA_KERNELS_SIMD_FLOAT_ROWS_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::CappedTag<float, 16>;
using I32Tag = hn::RebindToSigned<F32Tag>;
using U32Tag = hn::RebindToUnsigned<F32Tag>;
using F32 = hn::Vec<F32Tag>;
using I32 = hn::Vec<I32Tag>;
using U32 = hn::Vec<U32Tag>;

inline constexpr std::size_t kLanes = hn::MaxLanes(F32Tag());  ///< 4, 8 or 16
inline constexpr std::size_t kGroup = 16;                      ///< elements of a canonical group
inline constexpr std::size_t kGroupVectors = kGroup / kLanes;  ///< vectors that hold a group

/// Load kLanes elements; any alignment.
HWY_INLINE F32 load_row(const float* p) { return hn::LoadU(F32Tag(), p); }
HWY_INLINE F32 load_row(const std::uint16_t* p) {
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(hn::PromoteTo(U32Tag(), hn::LoadU(d16, p))));
}

/// Store kLanes elements; any alignment.
HWY_INLINE void store_row(F32 v, float* p) { hn::StoreU(v, F32Tag(), p); }
HWY_INLINE void store_row(F32 v, std::uint16_t* p) {
  const U32Tag d;
  const I32Tag di;
  const hn::Rebind<std::uint16_t, F32Tag> d16;
  const U32 bits = hn::BitCast(d, v);
  const U32 high = hn::ShiftRight<16>(bits);
  const U32 rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(d, 0x7fffu)), hn::And(high, hn::Set(d, 1u))));
  const I32 magnitude = hn::BitCast(di, hn::And(bits, hn::Set(d, 0x7fffffffu)));
  const auto is_nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(di, 0x7f800000)));
  const auto is_tiny = hn::RebindMask(d, hn::Lt(magnitude, hn::Set(di, 0x00800000)));
  U32 out = hn::IfThenElse(is_nan, hn::Or(high, hn::Set(d, 0x40u)), rounded);
  out = hn::IfThenElse(is_tiny, hn::And(high, hn::Set(d, 0x8000u)), out);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, out)), d16, p);  // 0..65535: saturation does not bite
}

/// Tails: copy `n` elements, any type, and fill up with zeros to `padded`.
template <typename T>
HWY_INLINE void copy_padded(const T* from, std::size_t n, T* to, std::size_t padded) {
  std::size_t i = 0;
  for (; i < n; ++i) to[i] = from[i];
  for (; i < padded; ++i) to[i] = T{};
}

/// |v| as its bits: integers that order like magnitudes, infinity above all finite values and NaN above infinity, so
/// that one integer maximum finds the largest magnitude and whether anything is not finite.
HWY_INLINE I32 magnitude_bits(F32 v) { return hn::BitCast(I32Tag(), hn::Abs(v)); }

/// Largest lane of non-negative integers.
HWY_INLINE std::int32_t max_lane(I32 v) { return hn::GetLane(hn::MaxOfLanes(I32Tag(), v)); }

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
