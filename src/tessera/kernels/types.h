#pragma once
// Words that all kernel families share. Kernels see raw memory: no tensors, no allocation, no exceptions.
#include <bit>
#include <cstdint>

namespace tessera::kernels {

enum class FloatType { kF32, kBf16 };

constexpr std::int64_t bytes_of(FloatType type) { return type == FloatType::kF32 ? 4 : 2; }

/// A row-major matrix of f32 or bf16 that a kernel reads; `stride` in elements.
struct FloatRows {
  const void* data = nullptr;
  FloatType type = FloatType::kF32;
  std::int64_t stride = 0;
};

/// The same, written.
struct MutableFloatRows {
  void* data = nullptr;
  FloatType type = FloatType::kF32;
  std::int64_t stride = 0;
};

/// bf16 as its bits: round to nearest even, NaN stays NaN, denormal results become signed zero (as vcvtneps2bf16).
constexpr std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // NaN, quiet
  if ((bits & 0x7f800000u) == 0) return static_cast<std::uint16_t>((bits >> 16) & 0x8000u);         // zero, denormal
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
constexpr float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

}  // namespace tessera::kernels
