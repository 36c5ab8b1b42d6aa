// One row of layer_norm.h, on vectors. Per-target include guard: foreach_target.h re-includes this file once per target.
#include <cmath>

#include "tessera/kernels/simd/reduce-inl.h"

#if defined(TESSERA_KERNELS_SIMD_LAYER_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_LAYER_NORM_INL_H_
#undef TESSERA_KERNELS_SIMD_LAYER_NORM_INL_H_
#else
#define TESSERA_KERNELS_SIMD_LAYER_NORM_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// Zero the lanes of vector `j` of a group that are not among the group's first `n` elements.
HWY_INLINE F32 first_of_group(F32 v, std::size_t j, std::size_t n) {
  if (n == kGroup) return v;
  const std::size_t before = j * kLanes;
  return hn::IfThenElseZero(hn::FirstN(F32Tag(), n > before ? n - before : 0), v);
}

// sum16 of term(x[c]).
template <typename Term>
HWY_INLINE float sum_row(const float* x, std::size_t cols, const Term& term) {
  Sum16 sum;
  std::size_t c = 0;
  for (; c + kGroup <= cols; c += kGroup)
    for (std::size_t j = 0; j < kGroupVectors; ++j) sum.add(j, term(load_row(x + c + j * kLanes)));
  if (c < cols) {
    float tail[kGroup];
    copy_padded(x + c, cols - c, tail, kGroup);
    for (std::size_t j = 0; j < kGroupVectors; ++j)
      sum.add(j, first_of_group(term(load_row(tail + j * kLanes)), j, cols - c));
  }
  return sum.total();
}

struct RowMoments {
  float mean, rstd;
};

/// Mean and 1 / sqrt(variance + eps) of a row, in the canonical order of layer_norm.h.
HWY_INLINE RowMoments row_moments(const float* x, std::size_t cols, float eps) {
  const auto n = static_cast<float>(cols);
  const float mean = sum_row(x, cols, [](F32 v) HWY_ATTR { return v; }) / n;
  const F32 center = hn::Set(F32Tag(), mean);
  const float square = sum_row(x, cols, [center](F32 v) HWY_ATTR {
    const F32 distance = hn::Sub(v, center);
    return hn::Mul(distance, distance);
  });
  return {mean, 1.0f / std::sqrt(square / n + eps)};
}

/// y of kLanes columns; a null weight or bias leaves its operation out.
HWY_INLINE F32 normalized(const float* x, const float* weight, const float* bias, F32 mean, F32 rstd) {
  F32 v = hn::Mul(hn::Sub(load_row(x), mean), rstd);
  if (weight) v = hn::Mul(v, load_row(weight));
  return bias ? hn::Add(v, load_row(bias)) : v;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
