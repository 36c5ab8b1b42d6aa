// Rows of codes or packed INT4 into panels. Rows are first brought to a small block of bytes in L1, zero-padded; a
// block is then transposed in groups of 4 x 4 words (rows along the contraction) or 4 x 16 bytes (rows across it).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/igemm/pack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "tessera/base/parallel.h"
#include "tessera/kernels/dispatch.h"
#include "tessera/kernels/igemm/igemm.h"
#include "tessera/kernels/igemm/reference.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kWideRow = 128;  // columns taken at once from rows across the contraction: eight panels

using Bytes = hn::FixedTag<std::uint8_t, 16>;
using Halves = hn::FixedTag<std::uint16_t, 8>;
using Words = hn::FixedTag<std::uint32_t, 4>;
using Pairs = hn::FixedTag<std::uint64_t, 2>;

// 32 codes from 16 bytes.
HWY_INLINE void unpack_32(const std::uint8_t* from, std::uint8_t* to) {
  const Bytes d;
  const auto eight = hn::Set(d, 8), packed = hn::LoadU(d, from);
  const auto low = hn::And(packed, hn::Set(d, 15));
  const auto high = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(Halves(), packed))), hn::Set(d, 15));
  const auto signed_code = [&](auto nibble) HWY_ATTR { return hn::Sub(hn::Xor(nibble, eight), eight); };
  hn::StoreU(signed_code(hn::InterleaveLower(d, low, high)), d, to);
  hn::StoreU(signed_code(hn::InterleaveUpper(d, low, high)), d, to + 16);
}

// Codes first..first+kWidth-1 of a source row; zeros from `count` on. `first` is even.
template <std::int64_t kWidth>
HWY_INLINE void load_codes(const PackSource& source, std::int64_t row, std::int64_t first, std::int64_t count,
                           std::uint8_t* to) {
  if (source.int4_packed == nullptr) {
    const std::int8_t* from = source.codes + row * source.row_bytes + first;
    if (count >= kWidth) {
      std::memcpy(to, from, kWidth);
    } else {
      std::memset(to, 0, kWidth);
      std::memcpy(to, from, static_cast<std::size_t>(count));
    }
    return;
  }
  const std::uint8_t* from = source.int4_packed + row * source.row_bytes + first / 2;
  std::uint8_t tail[kWidth / 2];
  if (count < kWidth) {
    std::memset(tail, 0, sizeof(tail));
    std::memcpy(tail, from, static_cast<std::size_t>((count + 1) / 2));
    from = tail;
  }
  for (std::int64_t i = 0; i < kWidth / 2; i += 16) unpack_32(from + i, to + 2 * i);
  if (count % 2 != 0 && count < kWidth) to[count] = 0;
}

// [16 columns][64 k] to [16][16][4]: a transposition of 16 x 16 words.
HWY_INLINE void words_to_panel(const std::uint8_t* block, std::uint8_t* panel) {
  const Words d;
  const Pairs d2;
  const auto row = [&](int r, int c) HWY_ATTR { return hn::BitCast(d, hn::Load(Bytes(), block + 64 * r + 16 * c)); };
  const auto store = [&](auto pairs, int k4, int r)
                         HWY_ATTR { hn::Store(hn::BitCast(Bytes(), pairs), Bytes(), panel + 64 * k4 + 4 * r); };
  for (int r = 0; r < 16; r += 4) {
    for (int c = 0; c < 4; ++c) {
      const auto r0 = row(r, c), r1 = row(r + 1, c), r2 = row(r + 2, c), r3 = row(r + 3, c);
      const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d, r2, r3));
      store(hn::InterleaveLower(d2, low01, low23), 4 * c, r);
      store(hn::InterleaveUpper(d2, low01, low23), 4 * c + 1, r);
      store(hn::InterleaveLower(d2, high01, high23), 4 * c + 2, r);
      store(hn::InterleaveUpper(d2, high01, high23), 4 * c + 3, r);
    }
  }
}

// [4 k][16 columns], rows kWideRow apart, to [16][4].
HWY_INLINE void bytes_to_panel(const std::uint8_t* block, std::uint8_t* panel) {
  const Bytes d;
  const Halves d2;
  const auto row = [&](int k) HWY_ATTR { return hn::Load(d, block + kWideRow * k); };
  const auto store = [&](auto halves, int j) HWY_ATTR { hn::Store(hn::BitCast(d, halves), d, panel + 4 * j); };
  const auto k0 = row(0), k1 = row(1), k2 = row(2), k3 = row(3);
  const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d, k0, k1));
  const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d, k2, k3));
  const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d, k0, k1));
  const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d, k2, k3));
  store(hn::InterleaveLower(d2, low01, low23), 0);
  store(hn::InterleaveUpper(d2, low01, low23), 4);
  store(hn::InterleaveLower(d2, high01, high23), 8);
  store(hn::InterleaveUpper(d2, high01, high23), 12);
}

void pack_along(const PackSource& source, const PackedB& b, std::int64_t begin, std::int64_t end) {
  alignas(64) std::uint8_t block[16 * 64];
  auto* to = reinterpret_cast<std::uint8_t*>(b.panels) + begin * kIgemmPanel * igemm_padded_k(b.k);
  for (std::int64_t p = begin; p < end; ++p) {
    const std::int64_t columns = std::min(kIgemmPanel, b.n - p * kIgemmPanel);
    if (columns < kIgemmPanel) std::memset(block, 0, sizeof(block));
    for (std::int64_t k = 0; k < b.k; k += kIgemmDepth, to += sizeof(block)) {
      for (std::int64_t j = 0; j < columns; ++j)
        load_codes<kIgemmDepth>(source, p * kIgemmPanel + j, k, b.k - k, block + kIgemmDepth * j);
      words_to_panel(block, to);
    }
  }
}

// `begin` and `end` count groups of eight panels here.
void pack_across(const PackSource& source, const PackedB& b, std::int64_t begin, std::int64_t end) {
  alignas(64) std::uint8_t block[4 * kWideRow];
  const std::int64_t panel_bytes = kIgemmPanel * igemm_padded_k(b.k);
  for (std::int64_t group = begin; group < end; ++group) {
    const std::int64_t first = group * kWideRow, columns = std::min(kWideRow, b.n - first);
    for (std::int64_t k = 0; k < igemm_padded_k(b.k); k += 4) {
      for (std::int64_t i = 0; i < 4; ++i) {
        if (k + i < b.k) {
          load_codes<kWideRow>(source, k + i, first, columns, block + kWideRow * i);
        } else {
          std::memset(block + kWideRow * i, 0, kWideRow);
        }
      }
      auto* to = reinterpret_cast<std::uint8_t*>(b.panels) + first / kIgemmPanel * panel_bytes + k * kIgemmPanel;
      for (std::int64_t j = 0; j < columns; j += kIgemmPanel, to += panel_bytes) bytes_to_panel(block + j, to);
    }
  }
}

void pack_range(const PackSource& source, const PackedB& b, std::int64_t begin, std::int64_t end) {
  (source.transposed ? pack_across : pack_along)(source, b, begin, end);
}

}  // namespace
}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::kernels {
namespace {
HWY_EXPORT(pack_range);
}  // namespace

void igemm_pack_b(const PackSource& source, const PackedB& b, IsaSet isa) {
  using PackRange = void(const PackSource&, const PackedB&, std::int64_t, std::int64_t);
  PackRange* pack = simd_entry(HWY_DISPATCH_TABLE(pack_range), isa, static_cast<PackRange*>(nullptr));
  if (pack == nullptr) return pack_b_reference(source, b);
  const std::int64_t columns = source.transposed ? 128 : kIgemmPanel;
  parallel_for(0, (b.n + columns - 1) / columns, 1,
               [&](std::int64_t begin, std::int64_t end) { pack(source, b, begin, end); });
}

}  // namespace tessera::kernels
#endif
