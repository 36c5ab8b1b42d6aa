#pragma once
// Time of what autograd differentiates by itself: forward and backward of a chain of operations count for one part.
#include "tessera/base/part_timers.h"
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// `x` itself, as a node whose backward begins `part` (the last node of a chain, the first in backward) or ends it.
torch::Tensor begin_part_in_backward(const torch::Tensor& x, Part part);
torch::Tensor end_part_in_backward(const torch::Tensor& x);

/// f(x), counted for `part` in both directions while timers are enabled. Only `x` may lead to gradients: a chain with
/// one way in and one way out is run by autograd in one piece.
template <typename F>
torch::Tensor timed(Part part, const torch::Tensor& x, F&& f) {
  const ScopedPart scope(part);
  if (!part_timers_enabled() || !at::GradMode::is_enabled() || !x.requires_grad()) return f(x);
  return begin_part_in_backward(f(end_part_in_backward(x)), part);
}

}  // namespace tessera::nn
