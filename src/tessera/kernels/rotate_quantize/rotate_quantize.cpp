// Per row: rotate chunk by chunk while summing squares and finding the largest magnitude; then, the scales being
// known, quantize the rotated chunks. The first kKept rotated columns stay on the stack, later ones are rotated again,
// which is cheaper than a trip to memory.
#include "tessera/kernels/rotate_quantize/rotate_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/rotate_quantize/rotate_quantize.cpp"
#include <hwy/foreach_target.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tessera/base/int4.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/codes-inl.h"
#include "tessera/kernels/simd/gelu-inl.h"
#include "tessera/kernels/simd/hadamard-inl.h"
#include "tessera/kernels/simd/layer_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kChunk = kHadamardChunk;
constexpr std::size_t kKept = 4096;

// The columns of a row, mapped: `row(c)` are kLanes of them from `c` on.
template <typename T>
struct PlainRow {
  const T* x;
  HWY_INLINE F32 operator()(std::size_t c) const { return load_row(x + c); }
};

template <typename T>
struct GeluRow {
  const T* x;
  HWY_INLINE F32 operator()(std::size_t c) const {
    const F32 v = load_row(x + c);
    return gelu_of<false>(v, v);
  }
};

struct NormalizedRow {
  const float *x, *weight, *bias;
  float mean, rstd;
  HWY_INLINE F32 operator()(std::size_t c) const {
    const F32Tag d;
    return normalized(x + c, weight ? weight + c : nullptr, bias ? bias + c : nullptr, hn::Set(d, mean),
                      hn::Set(d, rstd));
  }
};

// The last columns of a row, short of a group, filled up with zeros; only plain rows can have them.
template <typename Row>
HWY_INLINE void load_ragged(const Row&, std::size_t, std::size_t, float*) {}
template <typename T>
HWY_INLINE void load_ragged(const PlainRow<T>& row, std::size_t c, std::size_t n, float* t) {
  T tail[kGroup];
  copy_padded(row.x + c, n, tail, kGroup);
  for (std::size_t j = 0; j < kGroup; j += kLanes) hn::Store(load_row(tail + j), F32Tag(), t + j);
}

// Rotated columns of one row, on demand.
template <typename Row>
class RotatedRow {
 public:
  RotatedRow(const Row& row, std::size_t cols, std::size_t block) : row_(row), cols_(cols), block_(block) {}

  /// Columns in the chunk that starts at `c`.
  std::size_t size(std::size_t c) const { return HWY_MIN(kChunk, cols_ - c); }

  /// Rotate the chunk that starts at `c`; zeros fill it up to a multiple of 64.
  HWY_INLINE const float* rotate(std::size_t c) {
    float* t = c + kChunk <= kKept ? kept_ + c : scratch_;
    const std::size_t n = size(c), groups = n / kGroup * kGroup, padded = round_up_64(n);
    const Row& row = row_;
    hadamard_chunk([&row, c](std::size_t i) HWY_ATTR { return row(c + i); }, groups, block_, t);
    if (groups != padded) {  // only without rotation can a group be ragged
      for (std::size_t i = groups; i < padded; i += kLanes) hn::Store(hn::Zero(F32Tag()), F32Tag(), t + i);
      if (n != groups) load_ragged(row, c + groups, n - groups, t + groups);
    }
    return t;
  }

  /// The chunk again, after rotate() has seen all of them.
  HWY_INLINE const float* chunk(std::size_t c) { return c + kChunk <= kKept ? kept_ + c : rotate(c); }

  static std::size_t round_up_64(std::size_t n) { return (n + 63) / 64 * 64; }

 private:
  Row row_;
  std::size_t cols_, block_;
  alignas(64) float kept_[kKept];
  alignas(64) float scratch_[kChunk];
};

struct Statistics {
  float sum_of_squares, sum_of_magnitudes;
  std::int32_t max_bits;  // of the magnitudes
  bool finite() const { return max_bits < 0x7f800000; }
};

template <bool kMagnitudes, typename Row>
HWY_INLINE Statistics measure(RotatedRow<Row>& row, std::size_t cols) {
  Sum16 sum, magnitudes;
  I32 max[kGroupVectors];
  for (std::size_t j = 0; j < kGroupVectors; ++j) max[j] = hn::Zero(I32Tag());
  for (std::size_t c = 0; c < cols; c += kChunk) {
    const float* HWY_RESTRICT t = row.rotate(c);
    const std::size_t n = row.size(c);
    for (std::size_t i = 0; i < n; i += kGroup) {
      HWY_UNROLL(4)
      for (std::size_t j = 0; j < kGroupVectors; ++j) {
        const F32 v = hn::Load(F32Tag(), t + i + j * kLanes);
        sum.add(j, hn::Mul(v, v));
        if (kMagnitudes) magnitudes.add(j, hn::Abs(v));
        max[j] = hn::Max(max[j], magnitude_bits(v));
      }
    }
  }
  for (std::size_t j = 1; j < kGroupVectors; ++j) max[0] = hn::Max(max[0], max[j]);
  return {sum.total(), kMagnitudes ? magnitudes.total() : 0, max_lane(max[0])};
}

struct Scale {
  float scale, inverse;
  bool nan() const { return scale != scale; }
};

HWY_INLINE Scale make_scale(float s, bool finite) {
  if (!finite || !(s <= std::numeric_limits<float>::max())) return {std::numeric_limits<float>::quiet_NaN(), 0};
  const float inverse = 1.0f / s;
  if (!(inverse <= std::numeric_limits<float>::max())) return {0, 0};
  return {s, inverse};
}

// Quantize `n` columns at `t`, in whole steps of kCodes, into `codes` and, if wanted, trust bits.
template <bool kGiven>
HWY_INLINE void quantize_rms4(const float* HWY_RESTRICT t, std::size_t n, float inverse, float trust_edge,
                              std::int8_t* codes, std::uint8_t* bits) {
  const F32Tag d;
  const F32 scale = hn::Set(d, inverse), edge = hn::Set(d, trust_edge), magic = hn::Set(d, kMagic);
  for (std::size_t i = 0; i < n; i += kCodes) {
    U32 rounded[4];
    HWY_UNROLL(4)
    for (std::size_t j = 0; j < 4; ++j) {
      // With the row's RMS |v| <= sqrt(cols) / kRms7, far below the 2^15 at which codes would wrap before they clamp.
      F32 v = hn::Mul(hn::Load(d, t + i + j * kLanes), scale);
      if (kGiven) v = hn::Min(hn::Max(v, hn::Set(d, -1024.0f)), hn::Set(d, 1024.0f));
      rounded[j] = hn::BitCast(U32Tag(), hn::Add(v, magic));
      if (bits) store_bits(hn::Le(hn::Abs(v), edge), j, bits + i / 8);
    }
    store_codes(rounded, 7, codes + i);
  }
}

HWY_INLINE void quantize_absmax(const float* HWY_RESTRICT t, std::size_t n, float inverse, std::int8_t* codes) {
  const F32Tag d;
  const F32 scale = hn::Set(d, inverse), magic = hn::Set(d, kMagic);
  for (std::size_t i = 0; i < n; i += kCodes) {
    U32 rounded[4];
    HWY_UNROLL(4)
    for (std::size_t j = 0; j < 4; ++j)
      rounded[j] = hn::BitCast(U32Tag(), hn::Add(hn::Mul(hn::Load(d, t + i + j * kLanes), scale), magic));
    store_codes(rounded, 127, codes + i);
  }
}

template <typename Row>
HWY_INLINE void write_rms4(const RotateQuantizeParams& p, std::size_t r, RotatedRow<Row>& row, Scale scale) {
  const auto cols = static_cast<std::size_t>(p.cols);
  const std::size_t packed_bytes = (cols + 1) / 2, mask_bytes = (cols + 7) / 8;
  std::uint8_t* packed = p.int4_packed ? p.int4_packed + r * packed_bytes : nullptr;
  std::int8_t* codes = p.int4_codes ? p.int4_codes + r * static_cast<std::size_t>(p.code_stride) : nullptr;
  std::uint8_t* mask = p.trust_mask ? p.trust_mask + r * mask_bytes : nullptr;
  if (scale.nan()) {
    if (packed) std::memset(packed, 0, packed_bytes);
    if (codes) std::memset(codes, 0, cols);
    if (mask) std::memset(mask, 0, mask_bytes);
    return;
  }
  if (!packed && !codes && !mask) return;
  for (std::size_t c = 0; c < cols; c += kChunk) {
    alignas(64) std::int8_t chunk_codes[kChunk];
    alignas(64) std::uint8_t chunk_bits[kChunk / 8];
    const std::size_t n = row.size(c);
    (p.int4_scale > 0 ? quantize_rms4<true> : quantize_rms4<false>)(row.chunk(c), n, scale.inverse, p.trust_edge,
                                                                    chunk_codes, mask ? chunk_bits : nullptr);
    if (codes) std::memcpy(codes + c, chunk_codes, n);
    if (packed) pack_int4(chunk_codes, n, packed + c / 2);
    if (mask) {
      if (n % 8) chunk_bits[n / 8] = static_cast<std::uint8_t>(chunk_bits[n / 8] & ((1u << (n % 8)) - 1));
      std::memcpy(mask + c / 8, chunk_bits, (n + 7) / 8);
    }
  }
}

template <typename Row>
HWY_INLINE void write_absmax(std::size_t cols, std::int8_t* codes, RotatedRow<Row>& row, Scale scale) {
  if (scale.nan()) {
    std::memset(codes, 0, cols);
    return;
  }
  for (std::size_t c = 0; c < cols; c += kChunk) {
    alignas(64) std::int8_t chunk_codes[kChunk];
    const std::size_t n = row.size(c);
    const bool whole = n % 64 == 0;
    quantize_absmax(row.chunk(c), n, scale.inverse, whole ? codes + c : chunk_codes);
    if (!whole) std::memcpy(codes + c, chunk_codes, n);
  }
}

template <typename Row>
HWY_INLINE void quantize_row(const RotateQuantizeParams& p, std::size_t r, const Row& mapped) {
  const auto cols = static_cast<std::size_t>(p.cols), stride = static_cast<std::size_t>(p.code_stride);
  RotatedRow<Row> row(mapped, cols, static_cast<std::size_t>(p.block));
  const Statistics statistics = p.abs_sums ? measure<true>(row, cols) : measure<false>(row, cols);
  if (p.abs_sums) p.abs_sums[r] = statistics.sum_of_magnitudes;
  if (p.square_sums) p.square_sums[r] = statistics.sum_of_squares;
  const float rms = cols ? std::sqrt(statistics.sum_of_squares / static_cast<float>(cols)) : 0;
  const Scale rms4 = make_scale(p.int4_scale > 0 ? p.int4_scale : kRms7 * rms, statistics.finite());
  write_rms4(p, r, row, rms4);
  if (p.int4_scales) p.int4_scales[r] = rms4.scale;
  if (p.int4_codes) std::memset(p.int4_codes + r * stride + cols, 0, stride - cols);
  if (p.absmax_codes) {
    float absmax;
    std::memcpy(&absmax, &statistics.max_bits, sizeof(absmax));
    const Scale scale = make_scale(absmax / static_cast<float>(p.absmax_limit), statistics.finite());
    write_absmax(cols, p.absmax_codes + r * stride, row, scale);
    p.absmax_scales[r] = scale.scale;
    std::memset(p.absmax_codes + r * stride + cols, 0, stride - cols);
  }
}

template <typename T>
HWY_INLINE const T* row_at(const RotateQuantizeParams& p, std::size_t r) {
  return static_cast<const T*>(p.x.data) + r * static_cast<std::size_t>(p.x.stride);
}

template <typename T>
void quantize_plain(const RotateQuantizeParams& p, std::size_t begin, std::size_t end) {
  for (std::size_t r = begin; r < end; ++r) quantize_row(p, r, PlainRow<T>{row_at<T>(p, r)});
}

template <typename T>
void quantize_gelu(const RotateQuantizeParams& p, std::size_t begin, std::size_t end) {
  for (std::size_t r = begin; r < end; ++r) quantize_row(p, r, GeluRow<T>{row_at<T>(p, r)});
}

void quantize_normalized(const RotateQuantizeParams& p, std::size_t begin, std::size_t end) {
  const LayerNormParams& norm = p.layer_norm;
  for (std::size_t r = begin; r < end; ++r) {
    const float* x = row_at<float>(p, r);
    const auto [mean, rstd] = row_moments(x, static_cast<std::size_t>(p.cols), norm.eps);
    norm.mean[r] = mean;
    norm.rstd[r] = rstd;
    quantize_row(p, r, NormalizedRow{x, norm.weight, norm.bias, mean, rstd});
  }
}

}  // namespace

void rotate_quantize_rows(const RotateQuantizeParams& p, std::int64_t begin, std::int64_t end) {
  const auto first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end);
  const bool f32 = p.x.type == FloatType::kF32;
  switch (p.map) {
    case RowMap::kNone:
      return (f32 ? quantize_plain<float> : quantize_plain<std::uint16_t>)(p, first, last);
    case RowMap::kGelu:
      return (f32 ? quantize_gelu<float> : quantize_gelu<std::uint16_t>)(p, first, last);
    case RowMap::kLayerNorm:
      return quantize_normalized(p, first, last);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(rotate_quantize_rows);

void rotate_quantize(const RotateQuantizeParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(rotate_quantize_rows), isa, &rotate_quantize_reference);
  const std::int64_t grain = 1 + 16384 / (params.cols + 1);
  parallel_for(0, params.rows, grain, [&](std::int64_t begin, std::int64_t end) { run(params, begin, end); });
}

}  // namespace tessera::kernels
#endif
