// Codes: 32-bit integers to bytes, bytes to packed INT4 and back, masks to bits.
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "tessera/kernels/simd/float_rows-inl.h"

#if defined(TESSERA_KERNELS_SIMD_CODES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_SIMD_CODES_INL_H_
#undef TESSERA_KERNELS_SIMD_CODES_INL_H_
#else
#define TESSERA_KERNELS_SIMD_CODES_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kCodes = 4 * kLanes;  ///< codes that pack_codes makes: a vector of bytes

/// v + kMagic, for |v| < 2^22, is v rounded to the nearest integer, ties to even, as the low bits of a float.
inline constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23

/// The low 16 bits of `m` (integers, or sums with kMagic) as signed codes, clamped to +-limit, in element order: lanes
/// of m[0] first.
HWY_INLINE hn::Vec<hn::Repartition<std::int8_t, F32Tag>> pack_codes(const U32 (&m)[4], int limit) {
  const hn::Repartition<std::int16_t, F32Tag> d16;
  const hn::Repartition<std::uint8_t, F32Tag> d8;
  const auto high = hn::Set(d16, static_cast<std::int16_t>(limit));
  const auto low = hn::Set(d16, static_cast<std::int16_t>(-limit));
  const auto join = [&](U32 even, U32 odd) HWY_ATTR {  // 16-bit lanes: even[0], odd[0], even[1], ...
    const auto both = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even));
    return hn::Min(hn::Max(both, low), high);
  };
  const auto first = hn::BitCast(U32Tag(), join(m[0], m[2])), second = hn::BitCast(U32Tag(), join(m[1], m[3]));
  // Bytes of 32-bit lane k: the codes k of m[0], m[1], m[2], m[3]. First collect equal vectors in 128-bit blocks ...
  const U32 even_bytes = hn::And(first, hn::Set(U32Tag(), 0x00ff00ffu));
  const U32 odd_bytes = hn::BitCast(U32Tag(), hn::ShiftLeft<8>(hn::BitCast(d16, second)));
  alignas(16) static constexpr std::uint8_t kTranspose4x4[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const auto bytes =
      hn::TableLookupBytes(hn::BitCast(d8, hn::Or(even_bytes, odd_bytes)), hn::LoadDup128(d8, kTranspose4x4));
  const hn::Repartition<std::int8_t, F32Tag> codes;
  if constexpr (kLanes == 4) {
    return hn::BitCast(codes, bytes);
  } else {  // ... then across blocks.
    alignas(64) static constexpr std::int32_t kBlocks4[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    alignas(64) static constexpr std::int32_t kBlocks2[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const auto order = hn::SetTableIndices(U32Tag(), kLanes == 16 ? kBlocks4 : kBlocks2);
    return hn::BitCast(codes, hn::TableLookupLanes(hn::BitCast(U32Tag(), bytes), order));
  }
}

/// Store kCodes codes; any alignment.
HWY_INLINE void store_codes(const U32 (&m)[4], int limit, std::int8_t* to) {
  hn::StoreU(pack_codes(m, limit), hn::Repartition<std::int8_t, F32Tag>(), to);
}

/// Store the bits of a mask, as vector `j` of a run of vectors whose bits start at `to`.
HWY_INLINE void store_bits(hn::Mask<F32Tag> mask, std::size_t j, std::uint8_t* to) {
  std::uint8_t bits[8] = {};
  hn::StoreMaskBits(F32Tag(), mask, bits);
  if constexpr (kLanes == 4) {
    to[j / 2] = static_cast<std::uint8_t>(j % 2 ? to[j / 2] | (bits[0] << 4) : bits[0]);
  } else {
    std::memcpy(to + j * (kLanes / 8), bits, kLanes / 8);
  }
}

/// Mask of the kLanes elements from element `i` (a multiple of kLanes) of a row of bits.
HWY_INLINE hn::Mask<F32Tag> load_bits(const std::uint8_t* from, std::size_t i) {
  std::uint8_t bits[8] = {};
  if constexpr (kLanes == 4) {
    bits[0] = static_cast<std::uint8_t>((from[i / 8] >> (i % 8)) & 15);
  } else {
    std::memcpy(bits, from + i / 8, kLanes / 8);
  }
  return hn::LoadMaskBits(F32Tag(), bits);
}

/// Pack `n` codes in -7..7, low nibble first; reads whole vectors of 16 codes, and an odd `n` ends in a zero nibble.
HWY_INLINE void pack_int4(std::int8_t* HWY_RESTRICT codes, std::size_t n, std::uint8_t* HWY_RESTRICT to) {
  const hn::CappedTag<std::uint16_t, 32> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  constexpr std::size_t kBytes = hn::MaxLanes(d16);
  if (n % 2) codes[n] = 0;
  const std::size_t bytes = (n + 1) / 2;
  std::size_t i = 0;
  for (; i + kBytes <= bytes; i += kBytes) {
    const auto pair = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(codes + 2 * i));
    const auto low = hn::And(pair, hn::Set(d16, 0x0fu));
    const auto high = hn::And(hn::ShiftRight<4>(pair), hn::Set(d16, 0xf0u));
    const hn::RebindToSigned<decltype(d16)> di16;
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di16, hn::Or(low, high))), d8, to + i);
  }
  for (; i < bytes; ++i) to[i] = static_cast<std::uint8_t>((codes[2 * i] & 0x0f) | ((codes[2 * i + 1] & 0x0f) << 4));
}

/// Unpack `bytes` bytes of INT4 codes to two codes per byte; writes whole vectors, so `to` needs room for a multiple
/// of 32 codes; `from` is read up to `bytes` only.
HWY_INLINE void unpack_int4(const std::uint8_t* HWY_RESTRICT from, std::size_t bytes, std::int8_t* HWY_RESTRICT to) {
  const hn::FixedTag<std::uint8_t, 16> d;
  const auto unpack = [&](auto packed, std::int8_t* out) HWY_ATTR {
    const auto eight = hn::Set(d, std::uint8_t{8});
    const auto low = hn::And(packed, hn::Set(d, std::uint8_t{15})), high = hn::ShiftRight<4>(packed);
    const auto low_code = hn::Sub(hn::Xor(low, eight), eight), high_code = hn::Sub(hn::Xor(high, eight), eight);
    auto* bytes_out = reinterpret_cast<std::uint8_t*>(out);
    hn::StoreU(hn::InterleaveLower(d, low_code, high_code), d, bytes_out);
    hn::StoreU(hn::InterleaveUpper(d, low_code, high_code), d, bytes_out + 16);
  };
  std::size_t i = 0;
  for (; i + 16 <= bytes; i += 16) unpack(hn::LoadU(d, from + i), to + 2 * i);
  if (i < bytes) {
    std::uint8_t tail[16];
    copy_padded(from + i, bytes - i, tail, 16);
    unpack(hn::LoadU(d, tail), to + 2 * i);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
