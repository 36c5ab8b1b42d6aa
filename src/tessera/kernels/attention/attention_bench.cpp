// Attention of one GPT-2 layer, [4, 1024, 12 heads of 64], on one thread.
#include "tessera/kernels/attention/attention.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "tessera/kernels/testing/bench_data.h"

namespace tessera::kernels {
namespace {

// Of the products alone, the half that the mask leaves: two forward, five backward.
void count_flops(benchmark::State& state, const AttentionShape& s, double products) {
  const double pairs = 0.5 * static_cast<double>(s.tokens * (s.tokens + 1) * s.batch * s.heads);
  state.counters["Flop/s"] = benchmark::Counter(2 * products * pairs * static_cast<double>(s.head_size),
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void attention(benchmark::State& state, IsaLevel level, FloatType type, bool backward) {
  if (!detected_isa().has(level)) return state.SkipWithError("this CPU lacks the ISA");
  const IsaSet isa = detected_isa().up_to(level);
  const AttentionShape shape{4, 1024, 12, 64};
  const std::int64_t rows = shape.batch * shape.tokens;
  const auto qkv = testing::normal_matrix(rows * shape.qkv_stride(), type);
  const auto d_o = testing::normal_matrix(rows * shape.o_stride(), type);
  AlignedBuffer<std::uint8_t> o(d_o.size()), dqkv(qkv.size());
  std::vector<float> lse(static_cast<std::size_t>(shape.batch * shape.heads * shape.tokens));
  const AttentionParams p{shape, type, 0.125f, qkv.data(), o.data(), lse.data()};
  const AttentionBackwardParams b{shape, type, 0.125f, qkv.data(), o.data(), lse.data(), d_o.data(), dqkv.data()};
  kernels::attention(p, isa);
  kernels::attention_backward(b, isa);  // touches the pages
  for (auto _ : state) {
    if (backward) {
      kernels::attention_backward(b, isa);
    } else {
      kernels::attention(p, isa);
    }
  }
  count_flops(state, shape, backward ? 5 : 2);
}

void settings(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMillisecond)->MinTime(0.2)->Repetitions(3)->ReportAggregatesOnly();
}

BENCHMARK_CAPTURE(attention, forward_f32_avx512, IsaLevel::kAvx512Vnni, FloatType::kF32, false)->Apply(settings);
BENCHMARK_CAPTURE(attention, backward_f32_avx512, IsaLevel::kAvx512Vnni, FloatType::kF32, true)->Apply(settings);
BENCHMARK_CAPTURE(attention, forward_bf16_avx512, IsaLevel::kAvx512Vnni, FloatType::kBf16, false)->Apply(settings);
BENCHMARK_CAPTURE(attention, backward_bf16_avx512, IsaLevel::kAvx512Vnni, FloatType::kBf16, true)->Apply(settings);
BENCHMARK_CAPTURE(attention, forward_f32_avx2, IsaLevel::kAvx2, FloatType::kF32, false)->Apply(settings);
BENCHMARK_CAPTURE(attention, backward_f32_avx2, IsaLevel::kAvx2, FloatType::kF32, true)->Apply(settings);

}  // namespace
}  // namespace tessera::kernels
