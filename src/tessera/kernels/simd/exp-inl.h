// exp of exp.h on vectors. Per-target include guard: foreach_target.h re-includes this file once per target.
#include "tessera/kernels/exp.h"
#include "tessera/kernels/simd/float_rows-inl.h"

#if defined(TESSERA_KERNELS_SIMD_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_EXP_INL_H_
#undef TESSERA_KERNELS_SIMD_EXP_INL_H_
#else
#define TESSERA_KERNELS_SIMD_EXP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

// NaN stays NaN: every comparison with it is false, every operation keeps it.
HWY_INLINE F32 exp_of(F32 a) {
  const F32Tag d;
  const F32 round = hn::Set(d, kExp.round);
  const F32 t = hn::Add(hn::Mul(a, hn::Set(d, kExp.log2e)), round);
  const F32 n = hn::Sub(t, round);
  const F32 r = hn::Sub(hn::Sub(a, hn::Mul(n, hn::Set(d, kExp.ln2_high))), hn::Mul(n, hn::Set(d, kExp.ln2_low)));
  F32 q = hn::Set(d, kExp.c[0]);
  for (std::size_t i = 1; i < kExp.c.size(); ++i) q = hn::Add(hn::Mul(q, r), hn::Set(d, kExp.c[i]));
  const F32 mantissa = hn::Add(hn::Add(hn::Mul(q, hn::Mul(r, r)), r), hn::Set(d, 1.0f));
  const U32 exponent = hn::ShiftLeft<23>(hn::Add(hn::BitCast(U32Tag(), t), hn::Set(U32Tag(), 127u)));
  const F32 result = hn::Mul(mantissa, hn::BitCast(d, exponent));
  return hn::IfThenZeroElse(hn::Lt(a, hn::Set(d, kExp.smallest)), result);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
