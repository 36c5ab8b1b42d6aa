// Two passes over y. First, by blocks of 64 rows: largest magnitudes of rows and columns, and column sums per block.
// Then, the scales being known, by tiles of 64 x 64: one Philox word per element rounds it in both directions, row
// codes are stored at once, column codes go to a tile that is transposed and stored in whole cache lines.
#include "tessera/kernels/fold_quantize/fold_quantize.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/fold_quantize/fold_quantize.cpp"
#include <hwy/foreach_target.h>

#include <cstring>
#include <limits>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/fold_quantize/workspace_internal.h"
#include "tessera/kernels/simd/codes-inl.h"
#include "tessera/kernels/simd/philox-inl.h"
#include "tessera/kernels/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

static_assert(kTile == kFoldBlock);

template <typename T>
HWY_INLINE const T* row_of(const FoldQuantizeParams& p, std::size_t n) {
  return static_cast<const T*>(p.y.data) + n * static_cast<std::size_t>(p.y.stride);
}

struct Scale {
  float scale, inverse;  // inverse 0: all codes are 0
};

HWY_INLINE Scale make_scale(std::int32_t max_bits, std::int32_t limit) {
  if (max_bits >= 0x7f800000) return {std::numeric_limits<float>::quiet_NaN(), 0};
  float absmax;
  std::memcpy(&absmax, &max_bits, sizeof(absmax));
  const float scale = absmax / static_cast<float>(limit), inverse = 1.0f / scale;
  if (!(inverse <= std::numeric_limits<float>::max())) return {0, 0};
  return {scale, inverse};
}

// --- first pass ------------------------------------------------------------------------------------------------------

// What the vector of columns at `c` adds to the statistics of kRows rows.
template <std::size_t kRows>
struct RowMaxima {
  F32 column_fold[kRows];
  I32 max[kRows];
};

template <std::size_t kRows, typename T>
HWY_INLINE void measure_vector(const T* const (&y)[kRows], F32 row_fold, RowMaxima<kRows>& rows,
                               std::int32_t* HWY_RESTRICT column_max, float* HWY_RESTRICT column_sum) {
  F32 v[kRows];
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < kRows; ++i) {
    v[i] = load_row(y[i]);
    rows.max[i] = hn::Max(rows.max[i], magnitude_bits(hn::Mul(v[i], row_fold)));
  }
  if (column_max) {
    I32 max = hn::Load(I32Tag(), column_max);
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < kRows; ++i) max = hn::Max(max, magnitude_bits(hn::Mul(v[i], rows.column_fold[i])));
    hn::Store(max, I32Tag(), column_max);
  }
  if (column_sum) {
    F32 sum = hn::Load(F32Tag(), column_sum);
    HWY_UNROLL(4)
    for (std::size_t i = 0; i < kRows; ++i) sum = hn::Add(sum, v[i]);
    hn::Store(sum, F32Tag(), column_sum);
  }
}

// Statistics of rows n..n+kRows-1: their scales, and their part of the block's column maxima and sums.
template <std::size_t kRows, typename T>
HWY_INLINE void measure_rows(const FoldQuantizeParams& p, const FoldWorkspace& w, std::size_t n) {
  const auto cols = static_cast<std::size_t>(p.cols);
  const std::size_t block = n / kFoldBlock;
  std::int32_t* column_max = w.column_max ? w.column_max + block * w.padded_cols : nullptr;
  float* column_sum = w.column_sum ? w.column_sum + block * w.padded_cols : nullptr;
  const T* y[kRows];
  RowMaxima<kRows> rows;
  for (std::size_t i = 0; i < kRows; ++i) {
    y[i] = row_of<T>(p, n + i);
    rows.column_fold[i] = hn::Set(F32Tag(), p.column_fold ? p.column_fold[n + i] : 1.0f);
    rows.max[i] = hn::Zero(I32Tag());
  }
  const auto at = [](auto* base, std::size_t c) { return base ? base + c : nullptr; };
  std::size_t c = 0;
  for (; c + kLanes <= cols; c += kLanes) {
    const T* here[kRows];
    for (std::size_t i = 0; i < kRows; ++i) here[i] = y[i] + c;
    const F32 row_fold = p.row_fold ? load_row(p.row_fold + c) : hn::Set(F32Tag(), 1.0f);
    measure_vector<kRows>(here, row_fold, rows, at(column_max, c), at(column_sum, c));
  }
  if (c != cols) {
    T tails[kRows][kLanes];
    const T* here[kRows];
    float fold[kLanes] = {};
    for (std::size_t i = 0; i < kRows; ++i) {
      copy_padded(y[i] + c, cols - c, tails[i], kLanes);
      here[i] = tails[i];
    }
    for (std::size_t i = 0; i < cols - c; ++i) fold[i] = p.row_fold ? p.row_fold[c + i] : 1.0f;
    measure_vector<kRows>(here, load_row(fold), rows, at(column_max, c), at(column_sum, c));
  }
  if (!p.row_codes) return;
  for (std::size_t i = 0; i < kRows; ++i) {
    const Scale scale = make_scale(max_lane(rows.max[i]), p.limit);
    p.row_scales[n + i] = scale.scale;
    w.row_inverse[n + i] = scale.inverse;
    const auto stride = static_cast<std::size_t>(p.row_stride);
    std::memset(p.row_codes + (n + i) * stride + cols, 0, stride - cols);
  }
}

template <typename T>
void measure_blocks(const FoldQuantizeParams& p, const FoldWorkspace& w, std::size_t begin, std::size_t end) {
  for (std::size_t block = begin; block < end; ++block) {
    if (w.column_max) std::memset(w.column_max + block * w.padded_cols, 0, w.padded_cols * sizeof(*w.column_max));
    if (w.column_sum) std::memset(w.column_sum + block * w.padded_cols, 0, w.padded_cols * sizeof(*w.column_sum));
    const std::size_t last = HWY_MIN((block + 1) * kFoldBlock, static_cast<std::size_t>(p.rows));
    std::size_t n = block * kFoldBlock;
    for (; n + 4 <= last; n += 4) measure_rows<4, T>(p, w, n);
    for (; n < last; ++n) measure_rows<1, T>(p, w, n);
  }
}

// --- between the passes ----------------------------------------------------------------------------------------------

// Combine the blocks of columns begin..end-1, both multiples of kLanes.
void combine_columns(const FoldQuantizeParams& p, const FoldWorkspace& w, std::size_t begin, std::size_t end) {
  const auto cols = static_cast<std::size_t>(p.cols);
  for (std::size_t c = begin; c < end; c += kLanes) {
    I32 max = hn::Zero(I32Tag());
    F32 sum = hn::Zero(F32Tag());
    for (std::size_t block = 0; block < w.blocks; ++block) {
      if (w.column_max) max = hn::Max(max, hn::Load(I32Tag(), w.column_max + block * w.padded_cols + c));
      if (w.column_sum) sum = hn::Add(sum, hn::Load(F32Tag(), w.column_sum + block * w.padded_cols + c));
    }
    alignas(64) std::int32_t max_bits[kLanes];
    alignas(64) float sums[kLanes];
    hn::Store(max, I32Tag(), max_bits);
    hn::Store(sum, F32Tag(), sums);
    for (std::size_t i = 0; i < kLanes; ++i) {
      const bool real = c + i < cols;
      if (p.column_codes) {
        const Scale scale = make_scale(max_bits[i], p.limit);
        w.column_inverse[c + i] = real ? scale.inverse : 0;
        if (real) p.column_scales[c + i] = scale.scale;
      }
      if (p.column_sum && real) p.column_sum[c + i] = sums[i];
    }
  }
  if (!p.column_codes) return;
  const auto rows = static_cast<std::size_t>(p.rows), stride = static_cast<std::size_t>(p.column_stride);
  for (std::size_t c = begin; c < HWY_MIN(end, cols); ++c)
    std::memset(p.column_codes + c * stride + rows, 0, stride - rows);
}

// --- second pass -----------------------------------------------------------------------------------------------------

// Uniform (draw + 0.5) / 65536 of a 16-bit draw that stands at bits 7..22 of `shifted`: as the mantissa of 1 + u.
HWY_INLINE F32 uniform(U32 shifted) {
  const U32Tag d;
  const U32 bits = hn::OrAnd(hn::Set(d, 0x3f800040u), shifted, hn::Set(d, 0x007fff80u));
  return hn::Sub(hn::BitCast(F32Tag(), bits), hn::Set(F32Tag(), 1.0f));
}

/// round(v) as an integer in the low bits; |v| is at most little more than 127.
HWY_INLINE U32 round_nearest(F32 v) { return hn::BitCast(U32Tag(), hn::Add(v, hn::Set(F32Tag(), kMagic))); }

HWY_INLINE U32 round_stochastic(F32 v, F32 u) {
  const F32 below = hn::Floor(v);
  const U32 code = round_nearest(below);
  const auto up = hn::RebindMask(U32Tag(), hn::Lt(u, hn::Sub(v, below)));
  return hn::IfThenElse(up, hn::Add(code, hn::Set(U32Tag(), 1u)), code);
}

// What a tile needs to know about its 64 columns; zeros past the last one.
struct TileColumns {
  const float* fold;     // of the rows
  const float* inverse;  // of the columns' scales
};

struct RowFactors {
  float inverse;      // of the row's own scale
  float column_fold;  // the row's factor in every column
};

// Quantize one row of a tile: 64 columns at `y` into row codes and column codes.
template <bool kStochastic, bool kRowCodes, bool kColumnCodes, typename T>
HWY_INLINE void quantize_row(const T* HWY_RESTRICT y, const TileColumns& columns, RowFactors row, int limit,
                             const PhiloxStream& noise, std::uint32_t quad, std::int8_t* row_codes,
                             std::int8_t* column_codes) {
  const F32Tag d;
  const F32 row_inverse = hn::Set(d, row.inverse), column_fold = hn::Set(d, row.column_fold);
  for (std::size_t c = 0; c < kTile; c += kCodes) {
    U32 words[4], row_rounded[4], column_rounded[4];
    if constexpr (kStochastic) {
      noise.draw(quad + static_cast<std::uint32_t>(c / 4), words[0], words[1]);
      noise.draw(quad + static_cast<std::uint32_t>((c + 2 * kLanes) / 4), words[2], words[3]);
    }
    HWY_UNROLL(4)
    for (std::size_t j = 0; j < 4; ++j) {
      const std::size_t i = c + j * kLanes;
      const F32 value = load_row(y + i);
      if constexpr (kRowCodes) {
        const F32 v = hn::Mul(hn::Mul(value, hn::LoadU(d, columns.fold + i)), row_inverse);
        if constexpr (kStochastic) {
          row_rounded[j] = round_stochastic(v, uniform(hn::ShiftLeft<7>(words[j])));
        } else {
          row_rounded[j] = round_nearest(v);
        }
      }
      if constexpr (kColumnCodes) {
        const F32 inverse = hn::Load(d, columns.inverse + i);
        // A column without codes may hold NaN and Inf, which a product with 0 does not remove.
        const F32 v = hn::IfThenElseZero(hn::Ne(inverse, hn::Zero(d)), hn::Mul(hn::Mul(value, column_fold), inverse));
        if constexpr (kStochastic) {
          column_rounded[j] = round_stochastic(v, uniform(hn::ShiftRight<9>(words[j])));
        } else {
          column_rounded[j] = round_nearest(v);
        }
      }
    }
    if constexpr (kRowCodes) store_codes(row_rounded, limit, row_codes + c);
    if constexpr (kColumnCodes) store_codes(column_rounded, limit, column_codes + c);
  }
}

// A tile's place, and what is worth fetching ahead while its row `i` is being quantized: the same row of the next tile,
// and the line that the next tile's column `i` goes to. Rows and columns are far apart, so the hardware does not see
// it.
struct Tile {
  std::size_t n0, c0;
  template <typename T>
  HWY_INLINE void prefetch(const FoldQuantizeParams& p, std::size_t i) const {
    const auto rows = static_cast<std::size_t>(p.rows), cols = static_cast<std::size_t>(p.cols);
    if (n0 + i < rows) {
      const auto* y = reinterpret_cast<const char*>(row_of<T>(p, n0 + i) + c0);
      const std::size_t bytes = HWY_MIN(kTile, cols - c0) * sizeof(T);
      for (std::size_t line = 0; line < bytes; line += 64) __builtin_prefetch(y + line, 0, 2);
    }
    if (p.column_codes && c0 + i < cols)
      __builtin_prefetch(p.column_codes + (c0 + i) * static_cast<std::size_t>(p.column_stride) + n0, 1, 2);
  }
};

HWY_INLINE void store_columns(const FoldQuantizeParams& p, Tile tile, std::size_t height, std::size_t width,
                              const std::int8_t (*codes)[kTile]) {
  alignas(64) std::int8_t turned[kTile][kTile];
  transpose_tile(codes, turned);
  for (std::size_t c = 0; c < width; ++c) {
    std::int8_t* to = p.column_codes + (tile.c0 + c) * static_cast<std::size_t>(p.column_stride) + tile.n0;
    if (height == kTile) {
      std::memcpy(to, turned[c], kTile);
    } else {
      std::memcpy(to, turned[c], height);
    }
  }
}

template <bool kStochastic, typename T>
HWY_INLINE void quantize_tile(const FoldQuantizeParams& p, const FoldWorkspace& w, Tile tile, Tile next) {
  const std::size_t height = HWY_MIN(kTile, static_cast<std::size_t>(p.rows) - tile.n0);
  const std::size_t width = HWY_MIN(kTile, static_cast<std::size_t>(p.cols) - tile.c0);
  alignas(64) float fold[kTile];
  if (!p.row_fold || width < kTile)
    for (std::size_t i = 0; i < kTile; ++i) fold[i] = i >= width ? 0 : p.row_fold ? p.row_fold[tile.c0 + i] : 1.0f;
  const TileColumns columns{p.row_fold && width == kTile ? p.row_fold + tile.c0 : fold,
                            p.column_codes ? w.column_inverse + tile.c0 : nullptr};
  const auto quad = static_cast<std::uint32_t>(tile.c0 / 4);
  alignas(64) std::int8_t codes[kTile][kTile];
  if (height < kTile) std::memset(codes, 0, sizeof(codes));
  for (std::size_t i = 0; i < height; ++i) {
    next.prefetch<T>(p, i);
    const std::size_t n = tile.n0 + i;
    const T* y = row_of<T>(p, n) + tile.c0;
    T tail[kTile];
    if (width < kTile) {
      copy_padded(y, width, tail, kTile);
      y = tail;
    }
    const PhiloxStream noise(p.key, p.step, p.micro_batch, p.row_offset + static_cast<std::uint32_t>(n));
    const RowFactors row{p.row_codes ? w.row_inverse[n] : 0, p.column_fold ? p.column_fold[n] : 1.0f};
    std::int8_t* row_codes = p.row_codes ? p.row_codes + n * static_cast<std::size_t>(p.row_stride) + tile.c0 : nullptr;
    alignas(64) std::int8_t tail_codes[kTile];
    std::int8_t* to = width < kTile ? tail_codes : row_codes;
    const bool has_row = row.inverse != 0;
    if (has_row && p.column_codes) {
      quantize_row<kStochastic, true, true>(y, columns, row, p.limit, noise, quad, to, codes[i]);
    } else if (has_row) {
      quantize_row<kStochastic, true, false>(y, columns, row, p.limit, noise, quad, to, nullptr);
    } else if (p.column_codes) {
      quantize_row<kStochastic, false, true>(y, columns, row, p.limit, noise, quad, nullptr, codes[i]);
    }
    if (row_codes && !has_row) std::memset(row_codes, 0, width);
    if (row_codes && has_row && width < kTile) std::memcpy(row_codes, tail_codes, width);
  }
  if (p.column_codes) store_columns(p, tile, height, width, codes);
}

template <typename T>
void quantize_tiles(const FoldQuantizeParams& p, const FoldWorkspace& w, std::size_t begin, std::size_t end) {
  const std::size_t strips = w.padded_cols / kTile;
  const auto at = [strips](std::size_t i) { return Tile{i / strips * kTile, i % strips * kTile}; };
  for (std::size_t i = begin; i < end; ++i) {
    const Tile tile = at(i), next = at(HWY_MIN(i + 1, end - 1));
    if (p.rounding == Rounding::kStochastic) {
      quantize_tile<true, T>(p, w, tile, next);
    } else {
      quantize_tile<false, T>(p, w, tile, next);
    }
  }
}

}  // namespace

const FoldSteps* fold_steps() {
  static constexpr FoldSteps kF32 = {measure_blocks<float>, combine_columns, quantize_tiles<float>};
  static constexpr FoldSteps kBf16 = {measure_blocks<std::uint16_t>, combine_columns, quantize_tiles<std::uint16_t>};
  static constexpr FoldSteps kSteps[2] = {kF32, kBf16};
  return kSteps;
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {
namespace {

// Cut the caller's scratch into its parts; with null, only count the bytes.
FoldWorkspace layout(const FoldQuantizeParams& p, std::byte* base) {
  FoldWorkspace w;
  const auto rows = static_cast<std::size_t>(p.rows), cols = static_cast<std::size_t>(p.cols);
  w.blocks = div_ceil(rows, kFoldBlock);
  w.padded_cols = round_up(cols, kFoldBlock);
  const auto take = [&](auto*& part, bool wanted, std::size_t n) {
    if (!wanted) return;
    if (base) part = reinterpret_cast<std::remove_reference_t<decltype(part)>>(base + w.bytes);
    w.bytes += round_up(n * 4, std::size_t{64});
  };
  take(w.column_max, p.column_codes != nullptr, w.blocks * w.padded_cols);
  take(w.column_sum, p.column_sum != nullptr, w.blocks * w.padded_cols);
  take(w.column_inverse, p.column_codes != nullptr, w.padded_cols);
  take(w.row_inverse, p.row_codes != nullptr, rows);
  return w;
}

const FoldSteps* no_steps() { return nullptr; }

}  // namespace

HWY_EXPORT(fold_steps);

std::int64_t fold_quantize_workspace(const FoldQuantizeParams& params) {
  return static_cast<std::int64_t>(layout(params, nullptr).bytes);
}

void fold_quantize(const FoldQuantizeParams& params, void* workspace, IsaSet isa) {
  const FoldSteps* all = simd_entry(HWY_DISPATCH_TABLE(fold_steps), isa, &no_steps)();
  if (all == nullptr) return fold_quantize_reference(params);
  const FoldSteps& steps = all[params.y.type == FloatType::kBf16];
  const FoldWorkspace w = layout(params, static_cast<std::byte*>(workspace));
  const auto run = [&](FoldStep step, std::size_t n, std::size_t unit) {
    parallel_for(0, static_cast<std::int64_t>(n), 1, [&](std::int64_t begin, std::int64_t end) {
      step(params, w, static_cast<std::size_t>(begin) * unit, static_cast<std::size_t>(end) * unit);
    });
  };
  const std::size_t strips = w.padded_cols / kFoldBlock;
  run(steps.measure_blocks, w.blocks, 1);
  if (params.column_codes || params.column_sum) run(steps.combine_columns, strips, kFoldBlock);
  if (params.row_codes || params.column_codes) run(steps.quantize_tiles, w.blocks * strips, 1);
}

}  // namespace tessera::kernels
#endif
