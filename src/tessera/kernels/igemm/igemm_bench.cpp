// Every row of the table over the shapes of GPT-2's products, the packing, and the register peak of vpdpbusd.
//
//   TESSERA_BENCH_THREADS=2 igemm_bench [--benchmark_filter=amx]
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>

#include "tessera/base/aligned_buffer.h"
#include "tessera/base/int4.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/igemm/igemm.h"

namespace tessera::kernels {
namespace {

int threads() {
  const char* value = std::getenv("TESSERA_BENCH_THREADS");
  return value != nullptr ? std::atoi(value) : 2;
}

AlignedBuffer<std::int8_t> codes(std::int64_t size, int limit) {
  AlignedBuffer<std::int8_t> buffer(static_cast<std::size_t>(size));
  std::uint32_t state = 1;
  for (std::int8_t& code : buffer.span()) {
    state = state * 1664525u + 1013904223u;
    code = static_cast<std::int8_t>(static_cast<int>((state >> 8) % (2u * static_cast<unsigned>(limit) + 1)) - limit);
  }
  return buffer;
}

void count_operations(benchmark::State& state, double operations, double bytes) {
  state.counters["Op/s"] = benchmark::Counter(operations, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["Bytes/s"] = benchmark::Counter(bytes, benchmark::Counter::kIsIterationInvariantRate);
}

void product(benchmark::State& state, const IgemmKernel& kernel, FloatType type) {
  const testing::ThreadBackend backend(threads());
  const std::int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const std::int64_t stride = igemm_a_stride(k);
  AlignedBuffer<std::int8_t> a = codes(m * stride, 98), b = codes(igemm_packed_b_bytes(n, k), 7);
  AlignedBuffer<std::uint8_t> out(static_cast<std::size_t>(m * n * bytes_of(type)));
  std::memset(out.data(), 0, out.size());
  AlignedBuffer<float> row_scale(static_cast<std::size_t>(m)), col_scale(static_cast<std::size_t>(n));
  for (float& s : row_scale.span()) s = 0.01f;
  for (float& s : col_scale.span()) s = 0.01f;
  IgemmParams p;
  p.m = m;
  p.a = a.data();
  p.a_stride = stride;
  p.a_limit = 98;
  p.b = {b.data(), n, k, 7};
  p.out = {out.data(), type, n};
  p.row_scale = row_scale.data();
  p.col_scale = col_scale.data();
  for (auto _ : state) kernel.run(p);
  count_operations(state, 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n),
                   static_cast<double>(a.size() + b.size() + out.size()));
}

void pack(benchmark::State& state, bool int4, bool transposed) {
  const testing::ThreadBackend backend(threads());
  const std::int64_t n = state.range(0), k = state.range(1);
  const std::int64_t rows = transposed ? k : n, columns = transposed ? n : k;
  const std::int64_t row_bytes = int4 ? int4_bytes(columns) : columns;
  AlignedBuffer<std::int8_t> source = codes(rows * row_bytes, 7);
  AlignedBuffer<std::int8_t> panels(static_cast<std::size_t>(igemm_packed_b_bytes(n, k)));
  PackSource from{.row_bytes = row_bytes, .transposed = transposed};
  if (int4) from.int4_packed = reinterpret_cast<const std::uint8_t*>(source.data());
  if (!int4) from.codes = source.data();
  for (auto _ : state) igemm_pack_b(from, {panels.data(), n, k});
  count_operations(state, 0.0, static_cast<double>(source.size() + panels.size()));
}

#if defined(TESSERA_HAVE_JIT)
// 24 independent chains of vpdpbusd in registers: what a core can do at best.
__attribute__((target("avx512f,avx512vnni"), noinline)) void vnni_chains(std::int64_t rounds) {
  for (std::int64_t i = 0; i < rounds; ++i) {
#define TESSERA_CHAIN(r) "vpdpbusd %%zmm0, %%zmm1, %%zmm" #r "\n\t"
    asm volatile(TESSERA_CHAIN(8) TESSERA_CHAIN(9) TESSERA_CHAIN(10) TESSERA_CHAIN(11) TESSERA_CHAIN(12)
                     TESSERA_CHAIN(13) TESSERA_CHAIN(14) TESSERA_CHAIN(15) TESSERA_CHAIN(16) TESSERA_CHAIN(17)
                         TESSERA_CHAIN(18) TESSERA_CHAIN(19) TESSERA_CHAIN(20) TESSERA_CHAIN(21) TESSERA_CHAIN(22)
                             TESSERA_CHAIN(23) TESSERA_CHAIN(24) TESSERA_CHAIN(25) TESSERA_CHAIN(26) TESSERA_CHAIN(27)
                                 TESSERA_CHAIN(28) TESSERA_CHAIN(29) TESSERA_CHAIN(30) TESSERA_CHAIN(31)::
                                     : "xmm0", "xmm1", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                                       "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
                                       "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31");
#undef TESSERA_CHAIN
  }
}

void vnni_peak(benchmark::State& state) {
  const testing::ThreadBackend backend(threads());
  constexpr std::int64_t kRounds = 200'000;
  for (auto _ : state)
    parallel_for(0, threads(), 1, [](std::int64_t begin, std::int64_t end) { vnni_chains(kRounds * (end - begin)); });
  count_operations(state, 2.0 * 64 * 24 * static_cast<double>(kRounds) * threads(), 0.0);
}
#endif

void shapes(benchmark::internal::Benchmark* b, bool fast) {
  b->ArgNames({"m", "k", "n"})->Unit(benchmark::kMillisecond)->UseRealTime();
  if (!fast) {
    b->Args({256, 768, 768});
    return;
  }
  for (const auto& [k, n] : {std::pair{768, 3072}, {3072, 768}, {768, 768}, {768, 2304}}) b->Args({4096, k, n});
  b->Args({768, 4096, 3072})->Args({1024, 768, 50257})->Args({1024, 50257, 768})->Args({1, 768, 3072});
}

void register_all() {
  for (const IgemmKernel& entry : igemm_kernels()) {
    if (!detected_isa().has(entry.level)) continue;
    for (FloatType type : {FloatType::kBf16, FloatType::kF32}) {
      const std::string name = std::string(entry.name) + (type == FloatType::kBf16 ? "/bf16" : "/f32");
      auto* bench = benchmark::RegisterBenchmark(name.c_str(), product, entry, type);
      shapes(bench, entry.level != IsaLevel::kReference);
    }
  }
  for (bool int4 : {false, true})
    for (bool transposed : {false, true}) {
      const std::string name = std::string("pack/") + (int4 ? "int4" : "int8") + (transposed ? "/across" : "/along");
      benchmark::RegisterBenchmark(name.c_str(), pack, int4, transposed)
          ->ArgNames({"n", "k"})
          ->Args({3072, 768})
          ->Args({768, 4096})
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    }
#if defined(TESSERA_HAVE_JIT)
  if (detected_isa().avx512_vnni) benchmark::RegisterBenchmark("vpdpbusd_peak", vnni_peak)->UseRealTime();
#endif
}

const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace tessera::kernels
