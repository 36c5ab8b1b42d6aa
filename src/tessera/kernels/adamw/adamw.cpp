// One pass over parameter, gradient, m and v: 28 bytes of traffic per element.
#include "tessera/kernels/adamw/adamw.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/adamw/adamw.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

HWY_INLINE F32 flush(F32 v) { return hn::IfThenZeroElse(hn::Lt(hn::Abs(v), hn::Set(F32Tag(), 0x1p-126f)), v); }

class Update {
 public:
  HWY_INLINE explicit Update(const AdamWParams& a) {
    const F32Tag d;
    const double beta1 = a.beta1, beta2 = a.beta2, lr = a.lr, t = static_cast<double>(a.t);
    const auto decay = static_cast<float>(lr * static_cast<double>(a.weight_decay));
    decays_ = decay != 0;
    grad_scale_ = hn::Set(d, a.grad_scale);
    c1_ = hn::Set(d, static_cast<float>(1 - beta1));
    beta2_ = hn::Set(d, a.beta2);
    c2_ = hn::Set(d, static_cast<float>(1 - beta2));
    decay_ = hn::Set(d, decay);
    step_ = hn::Set(d, static_cast<float>(lr / (1 - std::pow(beta1, t))));
    root_ = hn::Set(d, static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, t))));
    eps_ = hn::Set(d, a.eps);
  }

  HWY_INLINE void operator()(float* parameter, const float* gradient, float* m_at, float* v_at) const {
    const F32 g = hn::Mul(load_row(gradient), grad_scale_), m_old = load_row(m_at);
    const F32 m = flush(hn::Add(m_old, hn::Mul(c1_, hn::Sub(g, m_old))));
    const F32 v = flush(hn::Add(hn::Mul(beta2_, load_row(v_at)), hn::Mul(c2_, hn::Mul(g, g))));
    F32 p = load_row(parameter);
    if (decays_) p = hn::Sub(p, hn::Mul(decay_, p));
    p = hn::Sub(p, hn::Div(hn::Mul(step_, m), hn::Add(hn::Mul(hn::Sqrt(v), root_), eps_)));
    store_row(m, m_at);
    store_row(v, v_at);
    store_row(p, parameter);
  }

 private:
  F32 grad_scale_, c1_, beta2_, c2_, decay_, step_, root_, eps_;
  bool decays_;
};

}  // namespace

void adamw_elements(const AdamWParams& a, std::int64_t begin, std::int64_t end) {
  const Update update(a);
  const auto last = static_cast<std::size_t>(end);
  auto i = static_cast<std::size_t>(begin);
  for (; i + kLanes <= last; i += kLanes) update(a.parameter + i, a.gradient + i, a.m + i, a.v + i);
  if (i == last) return;
  float parameter[kLanes], gradient[kLanes], m[kLanes], v[kLanes];
  const std::size_t rest = last - i;
  copy_padded(a.parameter + i, rest, parameter, kLanes);
  copy_padded(a.gradient + i, rest, gradient, kLanes);
  copy_padded(a.m + i, rest, m, kLanes);
  copy_padded(a.v + i, rest, v, kLanes);
  update(parameter, gradient, m, v);
  copy_padded(parameter, rest, a.parameter + i, rest);
  copy_padded(m, rest, a.m + i, rest);
  copy_padded(v, rest, a.v + i, rest);
}

double sum_of_squares_block(const float* x, std::int64_t n) {
  using Tag64 = hn::Repartition<double, F32Tag>;
  constexpr std::size_t kLanes64 = kLanes / 2, kVectors = kGroup / kLanes64;
  const Tag64 d;
  const hn::Rebind<float, Tag64> d32;
  const auto count = static_cast<std::size_t>(n), whole = count / kGroup * kGroup;
  hn::Vec<Tag64> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(d);
  const auto add_group = [&](const float* group) HWY_ATTR {
    for (std::size_t j = 0; j < kVectors; ++j) {
      const auto v = hn::PromoteTo(d, hn::LoadU(d32, group + j * kLanes64));
      sums[j] = hn::Add(sums[j], hn::Mul(v, v));
    }
  };
  for (std::size_t i = 0; i < whole; i += kGroup) add_group(x + i);
  if (whole != count) {
    float tail[kGroup];
    copy_padded(x + whole, count - whole, tail, kGroup);
    add_group(tail);
  }
  alignas(64) double parts[kGroup];
  for (std::size_t j = 0; j < kVectors; ++j) hn::Store(sums[j], d, parts + j * kLanes64);
  for (std::size_t half = kGroup / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  return parts[0];
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(adamw_elements);
HWY_EXPORT(sum_of_squares_block);

void adamw(const AdamWParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(adamw_elements), isa, &adamw_reference);
  constexpr std::int64_t kShare = 4096;
  parallel_for(0, div_ceil(params.n, kShare), 4, [&](std::int64_t begin, std::int64_t end) {
    run(params, begin * kShare, std::min(params.n, end * kShare));
  });
}

double sum_of_squares(const float* x, std::int64_t n, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(sum_of_squares_block), isa, &sum_of_squares_reference);
  constexpr std::int64_t kBlock = 4096, kRound = 1024;  // block sums of a round lie on the stack
  const std::int64_t blocks = div_ceil(n, kBlock);
  double sum = 0;
  for (std::int64_t first = 0; first < blocks; first += kRound) {
    double sums[kRound];
    const std::int64_t last = std::min(blocks, first + kRound);
    parallel_for(first, last, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        sums[b - first] = run(x + b * kBlock, std::min(kBlock, n - b * kBlock));
    });
    for (std::int64_t b = first; b < last; ++b) sum += sums[b - first];
  }
  return sum;
}

}  // namespace tessera::kernels
#endif
