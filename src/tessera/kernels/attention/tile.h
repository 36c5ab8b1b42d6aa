#pragma once
// The small matrix product that attention is made of: a tile of 12 x 32 sums in registers. Operands are words of 32
// bits: one f32, or two bf16 that follow each other along the depth.
#include <cstddef>
#include <cstdint>

namespace tessera::kernels {

inline constexpr std::int64_t kTileRows = 12, kTileColumns = 32;

/// c[12, 32] (+)= a x b over `steps` words of depth.
struct TileArgs {
  const void* a = nullptr;  ///< word (row, step) at row * a_stride + 4 * step, or, turned, at step * a_stride + 4 * row
  std::int64_t a_stride = 0;  ///< bytes, as all strides
  const void* b = nullptr;    ///< word (step, column) at step * b_stride + 4 * column
  std::int64_t b_stride = 0;
  float* c = nullptr;
  std::int64_t c_stride = 0;
  std::int64_t steps = 0;
  std::int64_t add = 0;  ///< 0: c is overwritten
};

using TileFn = void (*)(const TileArgs*);

/// The two orders of `a`; null: not generated here.
struct TileKernels {
  TileFn plain = nullptr, turned = nullptr;
};

struct AttentionTiles {
  TileKernels f32, bf16_pairs;
};

/// Generated for AVX-512, of f32 words or, where the CPU multiplies them, of bf16 pairs; else null.
TileKernels generated_tiles(bool bf16_pairs);

/// At least `floats` floats of this thread's own scratch, kept until the thread ends; contents undefined.
float* thread_scratch(std::size_t floats);

}  // namespace tessera::kernels
