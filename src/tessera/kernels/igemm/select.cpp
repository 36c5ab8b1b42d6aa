// Which kernel serves a product: the ISA's best, measured where two kernels of one level compete.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "tessera/base/aligned_buffer.h"
#include "tessera/base/check.h"
#include "tessera/kernels/igemm/igemm.h"

namespace tessera::kernels {
namespace {

// $TESSERA_IGEMM_KERNEL, or null.
const IgemmKernel* forced_kernel() {
  static const IgemmKernel* const forced = []() -> const IgemmKernel* {
    const char* name = std::getenv("TESSERA_IGEMM_KERNEL");
    if (name == nullptr || *name == '\0') return nullptr;
    std::string known;
    for (const IgemmKernel& kernel : igemm_kernels()) {
      if (kernel.name == name) {
        TESSERA_CHECK(detected_isa().has(kernel.level), "TESSERA_IGEMM_KERNEL is '{}', but this CPU lacks {}", name,
                      isa_name(kernel.level));
        return &kernel;
      }
      known += known.empty() ? "" : ", ";
      known += kernel.name;
    }
    fail("TESSERA_IGEMM_KERNEL is '{}', expected one of {}", name, known);
  }();
  return forced;
}

// Best seconds of two kernels on a product of a hundred microseconds, taken in turn.
void measure(const IgemmKernel* const (&kernels)[2], double (&seconds)[2]) {
  constexpr std::int64_t kRows = 360, kDepth = 768, kColumns = 128;
  AlignedBuffer<std::int8_t> a(kRows * static_cast<std::size_t>(igemm_a_stride(kDepth)));
  AlignedBuffer<std::int8_t> b(static_cast<std::size_t>(igemm_packed_b_bytes(kColumns, kDepth)));
  AlignedBuffer<std::int32_t> out(kRows * kColumns);
  std::fill_n(a.data(), a.size(), std::int8_t{3});
  std::fill_n(b.data(), b.size(), std::int8_t{5});
  IgemmParams params;
  params.m = kRows;
  params.a = a.data();
  params.a_stride = igemm_a_stride(kDepth);
  params.a_limit = 63;
  params.b = {b.data(), kColumns, kDepth, 63};
  params.acc_out = out.data();
  params.out.stride = kColumns;
  for (double& s : seconds) s = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 8; ++round)  // the first generates code and touches memory
    for (int i = 0; i < 2; ++i) {
      const auto start = std::chrono::steady_clock::now();
      kernels[i]->run(params);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (round > 0) seconds[i] = std::min(seconds[i], took.count());
    }
}

// Whether a kernel for narrow codes beats the general one of its level, the row after it, on this CPU.
bool narrow_pays(const IgemmKernel& narrow) {
  static const bool pays = [&] {
    double seconds[2];
    measure({&narrow, &narrow + 1}, seconds);
    return seconds[0] < seconds[1];
  }();
  return pays;
}

}  // namespace

const IgemmKernel& select_igemm(IsaSet isa, std::int32_t a_limit, std::int32_t b_limit) {
  const IgemmKernel* forced = forced_kernel();
  if (forced != nullptr && isa.has(forced->level) && forced->takes(a_limit, b_limit)) return *forced;
  for (const IgemmKernel& kernel : igemm_kernels())
    if (isa.has(kernel.level) && kernel.takes(a_limit, b_limit) && (!kernel.narrow || narrow_pays(kernel)))
      return kernel;
  fail("the igemm table has no kernel that takes everything");
}

}  // namespace tessera::kernels
