// Three passes over a row, which stays in L2: largest logit; exponentials and their sum; gradient.
#include "tessera/kernels/cross_entropy/cross_entropy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/cross_entropy/cross_entropy.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/exp-inl.h"
#include "tessera/kernels/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

HWY_INLINE float max_of(const float* x, std::size_t cols) {
  constexpr std::size_t kStreams = 4;  // hide the latency of the maximum
  const F32Tag d;
  F32 largest[kStreams];
  for (auto& v : largest) v = hn::Set(d, -std::numeric_limits<float>::infinity());
  std::size_t c = 0;
  for (; c + kStreams * kLanes <= cols; c += kStreams * kLanes)
    for (std::size_t j = 0; j < kStreams; ++j) largest[j] = hn::Max(largest[j], load_row(x + c + j * kLanes));
  const F32 all = hn::Max(hn::Max(largest[0], largest[1]), hn::Max(largest[2], largest[3]));
  float max = hn::GetLane(hn::MaxOfLanes(d, all));
  for (; c < cols; ++c) max = std::max(max, x[c]);
  return max;
}

// sum16 of exp(x - max); keeps the exponentials in x when `kKeep`.
template <bool kKeep>
HWY_INLINE float sum_of_exp(float* x, std::size_t cols, float max) {
  const F32Tag d;
  const F32 max_v = hn::Set(d, max);
  Sum16 sum;
  std::size_t c = 0;
  for (; c + kGroup <= cols; c += kGroup) {
    for (std::size_t j = 0; j < kGroupVectors; ++j) {
      float* at = x + c + j * kLanes;
      const F32 e = exp_of(hn::Sub(load_row(at), max_v));
      sum.add(j, e);
      if (kKeep) store_row(e, at);
    }
  }
  if (c < cols) {
    float tail[kGroup];
    std::fill(std::copy(x + c, x + cols, tail), tail + kGroup, -std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < kGroupVectors; ++j) {
      const auto inside = hn::FirstN(d, cols - c > j * kLanes ? cols - c - j * kLanes : 0);
      const F32 e = hn::IfThenElseZero(inside, exp_of(hn::Sub(load_row(tail + j * kLanes), max_v)));
      sum.add(j, e);
      if (kKeep) store_row(e, tail + j * kLanes);
    }
    if (kKeep) std::copy(tail, tail + (cols - c), x + c);
  }
  return sum.total();
}

HWY_INLINE void scale(float* x, std::size_t cols, float factor) {
  const F32 factor_v = hn::Set(F32Tag(), factor);
  std::size_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) store_row(hn::Mul(load_row(x + c), factor_v), x + c);
  for (; c < cols; ++c) x[c] *= factor;
}

}  // namespace

void cross_entropy_rows(const CrossEntropyParams& p, std::int64_t begin, std::int64_t end) {
  const auto cols = static_cast<std::size_t>(p.cols);
  for (std::int64_t r = begin; r < end; ++r) {
    float* x = p.logits + r * p.stride;
    const std::int64_t target = p.targets[r];
    if (target == kIgnoreTarget) {
      p.loss[r] = 0;
      if (p.gradient) std::fill_n(x, cols, 0.0f);
      continue;
    }
    const float max = max_of(x, cols), at_target = x[target];
    const float sum = p.gradient ? sum_of_exp<true>(x, cols, max) : sum_of_exp<false>(x, cols, max);
    p.loss[r] = static_cast<float>(std::log(static_cast<double>(sum)) +
                                   (static_cast<double>(max) - static_cast<double>(at_target)));
    if (!p.gradient) continue;
    const float inverse = 1.0f / sum, e = x[target];
    scale(x, cols, inverse * p.gradient_scale);
    x[target] = (e * inverse - 1.0f) * p.gradient_scale;
  }
}

void softmax_exp_elements(const float* a, float* y, std::int64_t n) {
  const auto count = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < count; i += kLanes) {
    float lanes[kLanes];
    const std::size_t rest = std::min(kLanes, count - i);
    copy_padded(a + i, rest, lanes, kLanes);
    store_row(exp_of(load_row(lanes)), lanes);
    copy_padded(lanes, rest, y + i, rest);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(cross_entropy_rows);
HWY_EXPORT(softmax_exp_elements);

void cross_entropy(const CrossEntropyParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(cross_entropy_rows), isa, &cross_entropy_reference);
  const std::int64_t grain = 1 + 16384 / (params.cols + 1);
  parallel_for(0, params.rows, grain, [&](std::int64_t begin, std::int64_t end) { run(params, begin, end); });
}

void softmax_exp(const float* a, float* y, std::int64_t n, IsaSet isa) {
  simd_entry(HWY_DISPATCH_TABLE(softmax_exp_elements), isa, &softmax_exp_reference)(a, y, n);
}

}  // namespace tessera::kernels
#endif
