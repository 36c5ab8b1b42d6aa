#pragma once
// Packed INT4: two codes per byte, low nibble first, two's complement, codes in -7..7 (never -8).
#include <cstddef>
#include <cstdint>

namespace tessera {

inline constexpr int kInt4Max = 7;    ///< INT4 codes: -7..7
inline constexpr int kSplitMax = 98;  ///< bit-split codes 14 * high + low: -98..98
inline constexpr int kInt7Max = 63;   ///< INT7 codes: -63..63
inline constexpr int kInt8Max = 127;  ///< INT8 codes: -127..127

/// Canonical split of a code in -98..98 into two INT4 planes: q = 14 * high + low. Hardware that has only INT4 products
/// multiplies the planes; 14 * acc(high) + acc(low), combined in INT32, is acc(q) exactly.
constexpr int split_high(int q) { return (q + 7 + 14 * 8) / 14 - 8; }  // floor((q + 7) / 14)
constexpr int split_low(int q) { return q - 14 * split_high(q); }

/// Bytes of a row of `n` packed INT4 codes; an odd row ends in a zero nibble.
constexpr std::int64_t int4_bytes(std::int64_t n) { return (n + 1) / 2; }

/// Read code `i` of a packed row.
inline std::int8_t int4_get(const std::uint8_t* row, std::int64_t i) {
  const unsigned nibble = (i & 1) ? row[i / 2] >> 4 : row[i / 2] & 15u;
  return static_cast<std::int8_t>(static_cast<int>(nibble ^ 8u) - 8);
}

/// Write code `i` of a packed row; the other nibble of the byte stays as it is.
inline void int4_set(std::uint8_t* row, std::int64_t i, int code) {
  const unsigned nibble = static_cast<unsigned>(code) & 15u;
  std::uint8_t& byte = row[i / 2];
  byte = static_cast<std::uint8_t>((i & 1) ? (byte & 0x0fu) | (nibble << 4) : (byte & 0xf0u) | nibble);
}

}  // namespace tessera
