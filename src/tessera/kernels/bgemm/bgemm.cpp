#include "tessera/kernels/bgemm/bgemm.h"

#include "tessera/base/check.h"
#include "tessera/base/math.h"

#ifdef TESSERA_HAVE_JIT
#include <cpuid.h>

#include "tessera/kernels/igemm/blocking.h"
#include "tessera/kernels/igemm/kernel_cache.h"
#endif

namespace tessera::kernels {
namespace {

#ifdef TESSERA_HAVE_JIT
bool has_amx_bf16() {
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1u << 22)) != 0;
  }();
  return has;
}

using Run = void (*)(const IgemmParams&);
Run best_run(IsaSet isa) {
  if (isa.amx_int8 && has_amx_bf16()) return bgemm_amx;
  if (isa.avx512_vnni && has_native_bf16()) return bgemm_avx512;
  return nullptr;
}
#else
using Run = void (*)(const IgemmParams&);
Run best_run(IsaSet) { return nullptr; }
#endif

}  // namespace

bool bgemm_available(IsaSet isa) { return best_run(isa) != nullptr; }

std::int64_t bgemm_packed_b_bytes(std::int64_t n, std::int64_t k) { return igemm_packed_b_bytes(n, 2 * k); }

void bgemm(const BgemmParams& params, IsaSet isa) {
  const Run run = best_run(isa);
  TESSERA_CHECK(run != nullptr, "this CPU has no bf16 products (isa {})", isa_name(isa.best()));
  IgemmParams p;
  p.m = params.m;
  p.a = reinterpret_cast<const std::int8_t*>(params.a);
  p.a_stride = 2 * params.a_stride;
  p.b = {const_cast<std::int8_t*>(params.panels), params.n, 2 * params.k};
  p.out = params.out;
  p.bias = params.bias;
  p.accumulate = params.accumulate;
  run(p);
}

}  // namespace tessera::kernels
