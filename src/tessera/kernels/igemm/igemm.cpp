#include "tessera/kernels/igemm/igemm.h"

#include "tessera/base/math.h"
#include "tessera/kernels/igemm/reference.h"

#ifdef TESSERA_HAVE_JIT
#include "tessera/kernels/igemm/blocking.h"
#endif

namespace tessera::kernels {
namespace {

struct Entry {
  IgemmKernel kernel;
  void (*run)(const IgemmParams&);
};

constexpr Entry kTable[] = {
#define TESSERA_IGEMM_KERNEL(name, level, run) {{#name, IsaLevel::level}, run},
#include "tessera/kernels/igemm/kernels.inc"
#undef TESSERA_IGEMM_KERNEL
};

// The last row needs nothing, so the search ends.
const Entry& best_entry(IsaSet isa) {
  const Entry* entry = kTable;
  while (!isa.has(entry->kernel.level)) ++entry;
  return *entry;
}

}  // namespace

std::int64_t igemm_padded_k(std::int64_t k) { return round_up(k, kIgemmDepth); }

// An odd number of cache lines: sixteen successive rows then start in sixteen different sets.
std::int64_t igemm_a_stride(std::int64_t k) { return (div_ceil(k, kIgemmDepth) | 1) * kIgemmDepth; }

std::int64_t igemm_packed_b_bytes(std::int64_t n, std::int64_t k) {
  return round_up(n, kIgemmPanel) * igemm_padded_k(k);
}

IgemmKernel select_igemm(IsaSet isa) { return best_entry(isa).kernel; }

void igemm(const IgemmParams& params, IsaSet isa) { best_entry(isa).run(params); }

}  // namespace tessera::kernels
