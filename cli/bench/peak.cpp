#include "bench/peak.h"

#include <algorithm>
#include <chrono>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::cli {
namespace {

#if defined(__x86_64__)
// Inline assembly: a compiler that knew these loops compute nothing of use would drop or spill them.
constexpr std::int64_t kZmmMacs = 16 * 64;  // independent instructions hide the latency
constexpr std::int64_t kTileMacs = 4 * 16 * 16 * 64;

__attribute__((target("avx512f,avx512vnni"))) void run_vpdpbusd(std::int64_t rounds) {
  __asm__ volatile(
      "1:\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm0\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm1\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm2\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm3\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm4\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm5\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm6\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm7\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm8\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm9\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm10\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm11\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm12\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm13\n\t"
      "vpdpbusd %%zmm16, %%zmm17, %%zmm14\n\tvpdpbusd %%zmm16, %%zmm17, %%zmm15\n\t"
      "dec %0\n\tjnz 1b\n\t"
      : "+r"(rounds)
      :
      : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15");
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t column_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

__attribute__((target("amx-tile,amx-int8"))) void run_tdpbssd(std::int64_t rounds) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.column_bytes[tile] = 64, config.rows[tile] = 16;
  __asm__ volatile("ldtilecfg %0" : : "m"(config));  // the intrinsic tells GCC of 8 of the 64 bytes only
  // Loading the configuration zeroed all tiles.
  for (std::int64_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
}

#endif

struct PeakLoop {
  const char* instruction = "";
  void (*run)(std::int64_t rounds) = nullptr;
  std::int64_t macs_per_round = 1;
};

PeakLoop loop_for([[maybe_unused]] IsaSet isa) {
#if defined(__x86_64__)
  if (isa.amx_int8) return {"tdpbssd", run_tdpbssd, kTileMacs};
  if (isa.avx512_vnni) return {"vpdpbusd", run_vpdpbusd, kZmmMacs};
#endif
  return {};
}

}  // namespace

std::string peak_instruction(IsaSet isa) { return loop_for(isa).instruction; }

void run_at_peak(IsaSet isa, std::int64_t macs) {
  const PeakLoop loop = loop_for(isa);
  TESSERA_DCHECK(loop.run != nullptr);
  const std::int64_t threads = num_threads(), rounds = div_ceil(macs, loop.macs_per_round * threads);
  parallel_for(0, threads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) loop.run(rounds);
  });
}

double measure_peak(IsaSet isa) {
  if (loop_for(isa).run == nullptr) return 0;
  constexpr std::int64_t kMacs = std::int64_t{1} << 35;
  double best = 0;  // a peak is the best sample: whatever else runs only lowers it
  for (int sample = 0; sample < 9; ++sample) {
    const auto start = std::chrono::steady_clock::now();
    run_at_peak(isa, kMacs);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * static_cast<double>(kMacs) / elapsed.count());
  }
  return best;
}

}  // namespace tessera::cli
