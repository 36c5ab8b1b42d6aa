// embedding_backward as its header says it.
#include "tessera/kernels/embedding/embedding.h"

namespace tessera::kernels {

void embedding_backward_reference(const std::int64_t* ids, std::int64_t n, const float* dy, std::int64_t cols,
                                  float* d_table, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t c = begin; c < end; ++c) d_table[ids[i] * cols + c] += dy[i * cols + c];
}

}  // namespace tessera::kernels
