// Threads share the columns in groups of 16, so that no two of them write one cache line of an aligned table.
#include "tessera/kernels/embedding/embedding.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/embedding/embedding.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/float_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {

void embedding_columns(const std::int64_t* ids, std::int64_t n, const float* dy, std::int64_t cols, float* d_table,
                       std::int64_t begin, std::int64_t end) {
  const auto width = static_cast<std::size_t>(end - begin), whole = width / kLanes * kLanes;
  for (std::int64_t i = 0; i < n; ++i) {
    const float* from = dy + i * cols + begin;
    float* to = d_table + ids[i] * cols + begin;
    for (std::size_t c = 0; c < whole; c += kLanes) store_row(hn::Add(load_row(to + c), load_row(from + c)), to + c);
    for (std::size_t c = whole; c < width; ++c) to[c] += from[c];
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {

HWY_EXPORT(embedding_columns);

void embedding_backward(const std::int64_t* ids, std::int64_t n, const float* dy, std::int64_t cols, float* d_table,
                        IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(embedding_columns), isa, &embedding_backward_reference);
  constexpr std::int64_t kShare = 16;
  const std::int64_t grain = 1 + 1024 / (n + 1);
  parallel_for(0, div_ceil(cols, kShare), grain, [&](std::int64_t begin, std::int64_t end) {
    run(ids, n, dy, cols, d_table, begin * kShare, std::min(cols, end * kShare));
  });
}

}  // namespace tessera::kernels
#endif
