// A run of kCodes elements at a time; a ragged end is filled up with zeros.
#include "tessera/kernels/gradient_codes/gradient_codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/gradient_codes/gradient_codes.cpp"
#include <hwy/foreach_target.h>

#include <cmath>
#include <cstring>

#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/codes-inl.h"
#include "tessera/kernels/simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

// (draw + 0.5) / 65536 of the low half of each word.
HWY_INLINE F32 draw_uniform(U32 words) {
  const F32 draw = hn::ConvertTo(F32Tag(), hn::BitCast(I32Tag(), hn::And(words, hn::Set(U32Tag(), 0xffffu))));
  return hn::Mul(hn::Add(draw, hn::Set(F32Tag(), 0.5f)), hn::Set(F32Tag(), 1.0f / 65536.0f));
}

HWY_INLINE F32 round_to_split(F32 v, F32 u) {
  const F32 below = hn::Floor(v);
  return hn::Add(below, hn::IfThenElseZero(hn::Lt(u, hn::Sub(v, below)), hn::Set(F32Tag(), 1.0f)));
}

HWY_INLINE F32 round_to_fp4(F32 v, F32 u) {
  const F32Tag d;
  const F32 magnitude = hn::Abs(v), one = hn::Set(d, 1.0f);
  // The exponent alone is the power of two below.
  const F32 power = hn::BitCast(d, hn::And(hn::BitCast(U32Tag(), magnitude), hn::Set(U32Tag(), 0x7f800000u)));
  const auto normal = hn::Ge(magnitude, one);
  const F32 low = hn::IfThenElseZero(normal, power), gap = hn::IfThenElse(normal, power, one);
  const auto up = hn::Lt(hn::Mul(u, gap), hn::Sub(magnitude, low));
  return hn::CopySign(hn::Add(low, hn::IfThenElseZero(up, gap)), v);
}

template <GradientGrid kGrid, typename T>
HWY_INLINE void round_run(const T* y, F32 inverse, const PhiloxStream& noise, std::uint32_t quad, std::int8_t* codes) {
  const F32Tag d;
  constexpr auto kLimit = gradient_limit(kGrid);
  const F32 limit = hn::Set(d, static_cast<float>(kLimit));
  U32 words[4], rounded[4];
  noise.draw(quad, words[0], words[1]);
  noise.draw(quad + static_cast<std::uint32_t>(2 * kLanes / 4), words[2], words[3]);
  HWY_UNROLL(4)
  for (std::size_t j = 0; j < 4; ++j) {
    const F32 scaled = hn::Mul(load_row(y + j * kLanes), inverse);
    const F32 v = hn::Min(hn::Max(scaled, hn::Neg(limit)), limit), u = draw_uniform(words[j]);
    const F32 code = kGrid == GradientGrid::kSplit ? round_to_split(v, u) : round_to_fp4(v, u);
    rounded[j] = hn::BitCast(U32Tag(), hn::Add(code, hn::Set(d, kMagic)));
  }
  store_codes(rounded, kLimit, codes);
}

template <GradientGrid kGrid, typename T>
void gradient_typed(const GradientCodesParams& p, std::int64_t begin, std::int64_t end) {
  const float inverse_scale = 1.0f / p.scale;
  const F32 inverse = hn::Set(F32Tag(), inverse_scale);
  const auto cols = static_cast<std::size_t>(p.cols), stride = static_cast<std::size_t>(p.code_stride);
  for (std::int64_t n = begin; n < end; ++n) {
    std::int8_t* codes = p.codes + static_cast<std::size_t>(n) * stride;
    if (!std::isfinite(inverse_scale)) {
      std::memset(codes, 0, stride);
      continue;
    }
    const T* y = static_cast<const T*>(p.y.data) + n * p.y.stride;
    const PhiloxStream noise(p.key, p.step, p.micro_batch, p.row_offset + static_cast<std::uint32_t>(n));
    std::size_t c = 0;
    for (; c + kCodes <= cols; c += kCodes)
      round_run<kGrid>(y + c, inverse, noise, static_cast<std::uint32_t>(c / 4), codes + c);
    if (c < cols) {
      T tail[kCodes];
      std::int8_t tail_codes[kCodes];
      copy_padded(y + c, cols - c, tail, kCodes);
      round_run<kGrid>(tail, inverse, noise, static_cast<std::uint32_t>(c / 4), tail_codes);
      std::memcpy(codes + c, tail_codes, cols - c);
    }
    std::memset(codes + cols, 0, stride - cols);
  }
}

}  // namespace

// The order of Philox's counter words is that of fold_quantize: {step, micro_batch, row, quad of columns}.
void gradient_rows(const GradientCodesParams& p, std::int64_t begin, std::int64_t end) {
  const bool f32 = p.y.type == FloatType::kF32;
  if (p.grid == GradientGrid::kSplit) {
    (f32 ? gradient_typed<GradientGrid::kSplit, float> : gradient_typed<GradientGrid::kSplit, std::uint16_t>)(p, begin,
                                                                                                            end);
  } else {
    (f32 ? gradient_typed<GradientGrid::kFp4, float> : gradient_typed<GradientGrid::kFp4, std::uint16_t>)(p, begin,
                                                                                                        end);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(gradient_rows);

void gradient_codes(const GradientCodesParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(gradient_rows), isa, &gradient_codes_reference);
  const std::int64_t grain = 1 + 16384 / (params.cols + 1);
  parallel_for(0, params.rows, grain, [&](std::int64_t begin, std::int64_t end) { run(params, begin, end); });
}

}  // namespace tessera::kernels
#endif
