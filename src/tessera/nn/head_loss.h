#pragma once
// Output head and cross-entropy in one function, chunk of tokens by chunk, so that logits [N, vocabulary] never exist
// whole: at most kHeadChunkElements of them at a time. Gradients are made in the forward pass, while the chunk is there.
#include <cstdint>

#include "tessera/nn/linear_products.h"
#include "tessera/quant/torch.h"

namespace tessera::nn {

inline constexpr std::int64_t kHeadChunkElements = std::int64_t{15} << 20;  ///< 60 MiB of f32

/// Tokens per chunk: a function of the vocabulary alone, so that results are too.
std::int64_t head_chunk_tokens(std::int64_t vocabulary);

/// Mean cross-entropy [] f32 of `hidden` [N, D] against `targets` [N] int64 (-1: none), with logits hidden W^T by the
/// call's recipe. `weight` [V, D] is the tensor behind the call's handle. Throws when no token has a target.
torch::Tensor head_loss(const torch::Tensor& hidden, const torch::Tensor& weight, const torch::Tensor& targets,
                        const LinearCall& call);

}  // namespace tessera::nn
