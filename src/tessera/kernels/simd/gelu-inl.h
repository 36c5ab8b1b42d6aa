// gelu.h on vectors. Per-target include guard: foreach_target.h re-includes this file once per target.
#include "tessera/kernels/gelu/gelu.h"
#include "tessera/kernels/simd/exp-inl.h"

#if defined(TESSERA_KERNELS_SIMD_GELU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_GELU_INL_H_
#undef TESSERA_KERNELS_SIMD_GELU_INL_H_
#else
#define TESSERA_KERNELS_SIMD_GELU_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

/// y of x, or with kBackward the gradient of x.
template <bool kBackward>
HWY_INLINE F32 gelu_of(F32 x, F32 dy) {
  const F32Tag d;
  const F32 one = hn::Set(d, 1.0f), k0 = hn::Set(d, kGelu.k0);
  const F32 c = hn::Min(hn::Max(x, hn::Set(d, -kGelu.clamp)), hn::Set(d, kGelu.clamp));
  const F32 square = hn::Mul(c, c);
  const F32 z = hn::Mul(c, hn::Add(k0, hn::Mul(hn::Set(d, kGelu.k1), square)));
  const F32 e = exp_of(hn::Neg(hn::Abs(z)));
  const F32 a = hn::Div(one, hn::Add(one, e));
  const F32 s = hn::IfThenElse(hn::Ge(z, hn::Zero(d)), a, hn::Mul(e, a));
  if (!kBackward) return hn::Mul(x, s);
  const F32 slope = hn::Add(k0, hn::Mul(hn::Set(d, kGelu.k3), square));
  return hn::Mul(dy, hn::Add(s, hn::Mul(hn::Mul(x, hn::Mul(e, hn::Mul(a, a))), slope)));
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
