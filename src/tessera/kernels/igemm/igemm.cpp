#include "tessera/kernels/igemm/igemm.h"

#include "tessera/base/math.h"
#include "tessera/kernels/igemm/reference.h"

#ifdef TESSERA_HAVE_JIT
#include "tessera/kernels/igemm/blocking.h"
#endif

namespace tessera::kernels {
namespace {

constexpr IgemmKernel kTable[] = {
#define TESSERA_IGEMM_KERNEL(name, level, narrow, run) {#name, IsaLevel::level, narrow, run},
#include "tessera/kernels/igemm/kernels.inc"
#undef TESSERA_IGEMM_KERNEL
};

}  // namespace

std::int64_t igemm_padded_k(std::int64_t k) { return round_up(k, kIgemmDepth); }

// An odd number of cache lines: sixteen successive rows then start in sixteen different sets.
std::int64_t igemm_a_stride(std::int64_t k) { return (div_ceil(k, kIgemmDepth) | 1) * kIgemmDepth; }

std::int64_t igemm_packed_b_bytes(std::int64_t n, std::int64_t k) {
  return round_up(n, kIgemmPanel) * igemm_padded_k(k);
}

std::span<const IgemmKernel> igemm_kernels() { return kTable; }

void igemm(const IgemmParams& params, IsaSet isa) { select_igemm(isa, params.a_limit, params.b.limit).run(params); }

}  // namespace tessera::kernels
