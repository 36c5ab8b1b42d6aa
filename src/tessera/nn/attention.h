#pragma once
// Causal self-attention of whole sequences on Tessera's kernels, from the QKV product's output as it lies.
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// Whether causal_attention takes `qkv` [batch, tokens, 3 * width], f32 or bf16, with `heads` heads: width / heads must
/// be a multiple of 16 up to 128. A model of another shape attends through torch.
bool causal_attention_supported(const torch::Tensor& qkv, std::int64_t heads);

/// softmax(q k^T / sqrt(head size)) v, each position seeing itself and earlier ones: [batch, tokens, width] of qkv's
/// dtype. The same bits with any number of threads, forward and backward. No second derivative.
torch::Tensor causal_attention(const torch::Tensor& qkv, std::int64_t heads);

}  // namespace tessera::nn
