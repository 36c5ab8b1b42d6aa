#pragma once
// Softmax cross-entropy of one chunk of logits, and its gradient in place.
//
//   loss[r] = log(sum_c exp(x[r,c] - max)) + max - x[r, target]          0 where target == kIgnoreTarget
//   x[r,c] <- (softmax(x)[r,c] - [c == target]) * gradient_scale         0 where target == kIgnoreTarget
// In fp32; row sums in 16 interleaved partial sums and the fixed tree. exp by the same polynomial on every ISA.
#include <cstdint>

#include "tessera/base/isa.h"

namespace tessera::kernels {

inline constexpr std::int64_t kIgnoreTarget = -1;

struct CrossEntropyParams {
  std::int64_t rows = 0, cols = 0;  ///< tokens, vocabulary
  float* logits = nullptr;          ///< [rows, cols] f32; overwritten by the gradient when `gradient`
  std::int64_t stride = 0;          ///< elements between rows
  const std::int64_t* targets = nullptr;  ///< [rows], 0..cols-1 or kIgnoreTarget (checked above)
  float* loss = nullptr;            ///< [rows]
  bool gradient = false;
  float gradient_scale = 1;
};
void cross_entropy(const CrossEntropyParams& params, IsaSet isa = enabled_isa());

}  // namespace tessera::kernels
