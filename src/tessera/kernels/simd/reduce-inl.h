// The canonical sum of a row: element i goes to partial sum i % 16, in increasing i; then the 16 sums are folded
// 16 -> 8 -> 4 -> 2 -> 1 by adding the upper half to the lower. The same bits with 4, 8 or 16 lanes.
//
//   Sum16 sum;
//   for (i = 0; i < cols; i += 16)
//     for (j = 0; j < kGroupVectors; ++j) sum.add(j, load_row(x + i + j * kLanes));
//   float total = sum.total();
// Elements past the end of a row must be +0: adding +0 leaves a partial sum as it is.
#include <hwy/highway.h>

#include "tessera/kernels/simd/float_rows-inl.h"

#if defined(TESSERA_KERNELS_SIMD_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_REDUCE_INL_H_
#undef TESSERA_KERNELS_SIMD_REDUCE_INL_H_
#else
#define TESSERA_KERNELS_SIMD_REDUCE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sixteen interleaved partial sums, starting at +0.
class Sum16 {
 public:
  HWY_INLINE Sum16() {
    for (std::size_t j = 0; j < kGroupVectors; ++j) part_[j] = hn::Zero(F32Tag());
  }

  /// Add vector `j` of a group of 16.
  HWY_INLINE void add(std::size_t j, F32 v) { part_[j] = hn::Add(part_[j], v); }

  /// Fold the partial sums.
  HWY_INLINE float total() const {
    alignas(64) float sums[kGroup];
    for (std::size_t j = 0; j < kGroupVectors; ++j) hn::Store(part_[j], F32Tag(), sums + j * kLanes);
    for (std::size_t half = kGroup / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    return sums[0];
  }

 private:
  F32 part_[kGroupVectors];
};

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
