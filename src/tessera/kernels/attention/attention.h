#pragma once
// Causal self-attention of whole sequences, forward and backward, straight from and to the layout of the QKV product.
//
//   o[t] = sum_{s <= t} p[t,s] v[s],  p[t,s] = exp(scale * q[t].k[s] - lse[t]),  lse[t] = log sum_{s <= t} exp(...)
//   delta[t] = do[t].o[t],  ds[t,s] = p[t,s] (do[t].v[s] - delta[t])
//   dv[s] = sum_t p[t,s] do[t],  dk[s] = scale sum_t ds[t,s] q[t],  dq[t] = scale sum_s ds[t,s] k[s]
//
// Blocks of 96 queries against blocks of keys that are not wholly in the future; nothing of size T x T is kept.
// Sums are f32 (Dao et al. 2022 without the online softmax: the scores of a block of queries stay in L2). With bf16
// and AVX-512 BF16, p and ds are rounded to bf16 and products run on bf16 pairs; otherwise bf16 is widened to f32.
// The same bits with any number of threads, not on every ISA. A value that is not finite may also reach the up to 11
// earlier positions that share its group of rows.
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels {

struct AttentionShape {
  std::int64_t batch = 0, tokens = 0, heads = 0, head_size = 0;
  std::int64_t qkv_stride() const { return 3 * heads * head_size; }  ///< elements between tokens
  std::int64_t o_stride() const { return heads * head_size; }
};

/// Whether the kernels take this shape: head_size a multiple of 16 up to 128, at least one of everything.
bool attention_supported(const AttentionShape& shape);

struct AttentionParams {
  AttentionShape shape;
  FloatType type = FloatType::kF32;  ///< of qkv and o
  float scale = 1;                   ///< of scores, positive
  const void* qkv = nullptr;         ///< [batch, tokens, 3, heads, head_size]
  void* o = nullptr;                 ///< [batch, tokens, heads, head_size]
  float* lse = nullptr;              ///< [batch, heads, tokens], kept for backward
};

/// All heads, in parallel over (batch, head).
void attention(const AttentionParams& params, IsaSet isa = enabled_isa());

struct AttentionBackwardParams {
  AttentionShape shape;
  FloatType type = FloatType::kF32;  ///< of qkv, o, d_o and dqkv
  float scale = 1;
  const void* qkv = nullptr;
  const void* o = nullptr;  ///< what attention() wrote
  const float* lse = nullptr;
  const void* d_o = nullptr;  ///< [batch, tokens, heads, head_size]
  void* dqkv = nullptr;       ///< [batch, tokens, 3, heads, head_size], overwritten
};

/// All heads, in parallel over (batch, head).
void attention_backward(const AttentionBackwardParams& params, IsaSet isa = enabled_isa());

/// Heads begin..end-1 of batch * heads, in f64 and plain C++: what runs below AVX2 and what tests compare with.
void attention_reference(const AttentionParams& params, std::int64_t begin, std::int64_t end);
void attention_backward_reference(const AttentionBackwardParams& params, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
