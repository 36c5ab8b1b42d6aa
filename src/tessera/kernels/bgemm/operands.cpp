// Operands of bgemm: panels from rows along or across the contraction, left operands from floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/bgemm/operands.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/bgemm/bgemm.h"
#include "tessera/kernels/simd/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

using Halves = hn::FixedTag<std::uint16_t, 8>;
constexpr std::size_t kTile = 8;    // rows and columns that are turned at once
constexpr std::size_t kStrip = 64;  // columns of a strip: their transposed rows are written in whole lines
constexpr std::size_t kStripRows = 32;

// [2 k][16 columns] to [16][2].
HWY_INLINE void pair_to_panel(const std::uint16_t* first, const std::uint16_t* second, std::uint16_t* panel) {
  const Halves d;
  for (std::size_t i = 0; i < 16; i += 8) {
    const auto a = hn::LoadU(d, first + i), b = hn::LoadU(d, second + i);
    hn::StoreU(hn::InterleaveLower(d, a, b), d, panel + 2 * i);
    hn::StoreU(hn::InterleaveUpper(d, a, b), d, panel + 2 * i + 8);
  }
}

template <typename V>
HWY_INLINE void interleave_halves(const V (&in)[8], V (&out)[8]) {
  const Halves d;
  HWY_UNROLL(4)
  for (std::size_t i = 0; i < 4; ++i) {
    out[2 * i] = hn::InterleaveLower(d, in[i], in[i + 4]);
    out[2 * i + 1] = hn::InterleaveUpper(d, in[i], in[i + 4]);
  }
}

// to[c][r] = from[r][c], 8 x 8: halves of vectors 4 apart interleave, three times.
HWY_INLINE void turn_tile(const std::uint16_t* from, std::size_t from_stride, std::uint16_t* to,
                          std::size_t to_stride) {
  const Halves d;
  using V = hn::Vec<Halves>;
  V a[8], b[8];
  HWY_UNROLL(8)
  for (std::size_t i = 0; i < 8; ++i) a[i] = hn::LoadU(d, from + i * from_stride);
  interleave_halves(a, b);
  interleave_halves(b, a);
  interleave_halves(a, b);
  HWY_UNROLL(8)
  for (std::size_t i = 0; i < 8; ++i) hn::StoreU(b[i], d, to + i * to_stride);
}

// bf16 of x[r, first..first+count-1], zeros up to kStrip.
template <typename T>
HWY_INLINE void round_strip(const T* x, std::size_t count, std::uint16_t* to) {
  if (count == kStrip) {
    for (std::size_t i = 0; i < kStrip; i += kLanes) store_row(load_row(x + i), to + i);
    return;
  }
  T padded[kStrip];
  copy_padded(x, count, padded, kStrip);
  for (std::size_t i = 0; i < kStrip; i += kLanes) store_row(load_row(padded + i), to + i);
}

template <typename T>
void round_columns(const Bf16RowsParams& p, std::size_t first) {
  const auto rows = static_cast<std::size_t>(p.rows), cols = static_cast<std::size_t>(p.cols);
  const auto column_stride = static_cast<std::size_t>(p.column_stride);
  const std::size_t count = std::min(kStrip, cols - std::min(cols, first));
  alignas(64) std::uint16_t strip[kStripRows][kStrip], turned[kStrip][kStripRows];
  const std::size_t all_rows = p.as_columns != nullptr ? column_stride : rows;
  for (std::size_t r0 = 0; r0 < all_rows; r0 += kStripRows) {
    const std::size_t here = std::min(kStripRows, rows - std::min(rows, r0));
    for (std::size_t r = 0; r < here; ++r)
      round_strip(static_cast<const T*>(p.x.data) + (r0 + r) * static_cast<std::size_t>(p.x.stride) + first, count,
                  strip[r]);
    if (here < kStripRows) std::memset(strip[here], 0, sizeof(strip[0]) * (kStripRows - here));
    if (p.as_rows != nullptr) {
      const auto stride = static_cast<std::size_t>(p.row_stride);
      const std::size_t width = std::min(kStrip, stride - first);
      for (std::size_t r = 0; r < here; ++r) std::memcpy(p.as_rows + (r0 + r) * stride + first, strip[r], 2 * width);
    }
    if (p.as_columns == nullptr || count == 0) continue;
    for (std::size_t r = 0; r < kStripRows; r += kTile)
      for (std::size_t c = 0; c < kStrip; c += kTile) turn_tile(&strip[r][c], kStrip, &turned[c][r], kStripRows);
    for (std::size_t c = 0; c < count; ++c)
      std::memcpy(p.as_columns + (first + c) * column_stride + r0, turned[c], sizeof(turned[c]));
  }
}

}  // namespace

void bf16_strips(const Bf16RowsParams& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t strip = begin; strip < end; ++strip) {
    const std::size_t first = static_cast<std::size_t>(strip) * kStrip;
    p.x.type == FloatType::kF32 ? round_columns<float>(p, first) : round_columns<std::uint16_t>(p, first);
  }
}

// Panels begin..end-1 from rows across the contraction.
void pack_pairs(const std::uint16_t* source, std::int64_t stride, std::int64_t n, std::int64_t k, std::int8_t* panels,
                std::int64_t begin, std::int64_t end) {
  const std::int64_t pairs = igemm_padded_k(2 * k) / 4;
  for (std::int64_t panel = begin; panel < end; ++panel) {
    auto* to = reinterpret_cast<std::uint16_t*>(panels + panel * igemm_padded_k(2 * k) * kIgemmPanel);
    const auto columns = static_cast<std::size_t>(std::min<std::int64_t>(kIgemmPanel, n - panel * kIgemmPanel));
    for (std::int64_t pair = 0; pair < pairs; ++pair, to += 32) {
      std::uint16_t rows[2][16];
      const std::uint16_t* at[2];
      for (std::int64_t i = 0; i < 2; ++i) {
        const std::uint16_t* row = source + (2 * pair + i) * stride + panel * kIgemmPanel;
        const bool inside = 2 * pair + i < k;
        at[i] = inside && columns == 16 ? row : rows[i];
        if (at[i] == rows[i]) copy_padded(row, inside ? columns : 0, rows[i], 16);
      }
      pair_to_panel(at[0], at[1], to);
    }
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {
namespace {

HWY_EXPORT(bf16_strips);
HWY_EXPORT(pack_pairs);

void pack_pairs_reference(const std::uint16_t* source, std::int64_t stride, std::int64_t n, std::int64_t k,
                          std::int8_t* panels, std::int64_t begin, std::int64_t end) {
  const std::int64_t padded = igemm_padded_k(2 * k) / 2;
  for (std::int64_t panel = begin; panel < end; ++panel) {
    auto* to = reinterpret_cast<std::uint16_t*>(panels + panel * 2 * padded * kIgemmPanel);
    for (std::int64_t i = 0; i < padded; ++i)
      for (std::int64_t j = 0; j < kIgemmPanel; ++j) {
        const std::int64_t column = panel * kIgemmPanel + j;
        to[i / 2 * 32 + 2 * j + i % 2] = i < k && column < n ? source[i * stride + column] : std::uint16_t{0};
      }
  }
}

}  // namespace

void bgemm_pack_b(const std::uint16_t* source, std::int64_t stride, bool transposed, std::int64_t n, std::int64_t k,
                  std::int8_t* panels, IsaSet isa) {
  if (!transposed) {  // words along the rows: as codes, four bytes each
    PackSource bytes;
    bytes.codes = reinterpret_cast<const std::int8_t*>(source);
    bytes.row_bytes = 2 * stride;
    return igemm_pack_b(bytes, {panels, n, 2 * k}, isa);
  }
  const auto pack = simd_entry(HWY_DISPATCH_TABLE(pack_pairs), isa, &pack_pairs_reference);
  parallel_for(0, div_ceil(n, kIgemmPanel), 1,
               [&](std::int64_t begin, std::int64_t end) { pack(source, stride, n, k, panels, begin, end); });
}

void bf16_rows_reference(const Bf16RowsParams& p, std::int64_t begin, std::int64_t end) {
  constexpr std::int64_t kColumns = 64;
  const std::int64_t first = begin * kColumns, last = end * kColumns;
  const auto value = [&](std::int64_t r, std::int64_t c) -> std::uint16_t {
    if (r >= p.rows || c >= p.cols) return 0;
    const std::int64_t at = r * p.x.stride + c;
    const float x = p.x.type == FloatType::kF32 ? static_cast<const float*>(p.x.data)[at]
                                                : from_bf16(static_cast<const std::uint16_t*>(p.x.data)[at]);
    return to_bf16(x);
  };
  for (std::int64_t c = first; c < last; ++c) {
    if (p.as_rows != nullptr && c < p.row_stride)
      for (std::int64_t r = 0; r < p.rows; ++r) p.as_rows[r * p.row_stride + c] = value(r, c);
    if (p.as_columns != nullptr && c < p.cols)
      for (std::int64_t r = 0; r < p.column_stride; ++r) p.as_columns[c * p.column_stride + r] = value(r, c);
  }
}

void bf16_rows(const Bf16RowsParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(bf16_strips), isa, &bf16_rows_reference);
  const std::int64_t width = params.as_rows != nullptr ? params.row_stride : params.cols;
  parallel_for(0, div_ceil<std::int64_t>(width, 64), 1,
               [&](std::int64_t begin, std::int64_t end) { run(params, begin, end); });
}

}  // namespace tessera::kernels
#endif
