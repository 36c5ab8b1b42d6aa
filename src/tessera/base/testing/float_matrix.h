#pragma once
// A matrix of f32 or bf16 whose rows start where a stride larger than the width puts them: unaligned, with a gap.
#include <cstdint>
#include <vector>

namespace tessera::testing {

/// bf16 by round to nearest even of finite normal numbers; written apart from the kernels, for test data only.
inline std::uint16_t bf16_bits(float value) {
  std::uint32_t bits;
  static_assert(sizeof(bits) == sizeof(value));
  __builtin_memcpy(&bits, &value, sizeof(bits));
  if (value != value) return 0x7fc0;
  const std::uint32_t rest = bits & 0xffffu, odd = (bits >> 16) & 1u;
  std::uint32_t high = bits >> 16;
  if (rest > 0x8000u || (rest == 0x8000u && odd)) ++high;
  return static_cast<std::uint16_t>(high);
}

/// `values` [rows, cols] laid out with `stride`; the gap is filled with NaN, which no kernel may read as data.
struct FloatMatrix {
  FloatMatrix(const std::vector<float>& values, std::int64_t rows, std::int64_t cols, std::int64_t stride)
      : f32(static_cast<std::size_t>(rows * stride) + 1, __builtin_nanf("")), bf16(f32.size(), 0x7fc0) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const float v = values[static_cast<std::size_t>(r * cols + c)];
        f32[static_cast<std::size_t>(r * stride + c)] = v;
        bf16[static_cast<std::size_t>(r * stride + c)] = bf16_bits(v);
      }
    }
  }
  std::vector<float> f32;
  std::vector<std::uint16_t> bf16;
};

}  // namespace tessera::testing
