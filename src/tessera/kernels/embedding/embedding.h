#pragma once
// Embedding lookup's gradient: d_table[id[i], :] += dy[i, :], rows added in increasing i for every thread count
// (threads share the columns, not the rows).
#include <cstdint>

#include "tessera/base/isa.h"

namespace tessera::kernels {

/// `d_table` [vocabulary, cols] f32 accumulates; `ids` [n] in 0..vocabulary-1 (checked above); `dy` [n, cols] f32.
void embedding_backward(const std::int64_t* ids, std::int64_t n, const float* dy, std::int64_t cols, float* d_table,
                        IsaSet isa = enabled_isa());

/// Columns begin..end-1 in plain C++: what every target must equal bit for bit.
void embedding_backward_reference(const std::int64_t* ids, std::int64_t n, const float* dy, std::int64_t cols,
                                  float* d_table, std::int64_t begin, std::int64_t end);

}  // namespace tessera::kernels
