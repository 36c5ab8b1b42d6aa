#pragma once
// Shapes and data that the benches of the SIMD families share: GPT-2's activations, f32 and bf16.
#include <benchmark/benchmark.h>

#include <cstdint>

#include "tessera/base/aligned_buffer.h"
#include "tessera/base/testing/float_matrix.h"
#include "tessera/base/testing/random.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels::testing {

/// N(0, 1) as `type`; the values repeat after 64 Ki, which no kernel can tell.
inline AlignedBuffer<std::uint8_t> normal_matrix(std::int64_t size, FloatType type) {
  const auto values = tessera::testing::normal_values(65536, 1);
  AlignedBuffer<std::uint8_t> buffer(static_cast<std::size_t>(size * bytes_of(type)));
  for (std::int64_t i = 0; i < size; ++i) {
    const float value = values[static_cast<std::size_t>(i % 65536)];
    if (type == FloatType::kF32) {
      reinterpret_cast<float*>(buffer.data())[i] = value;
    } else {
      reinterpret_cast<std::uint16_t*>(buffer.data())[i] = tessera::testing::bf16_bits(value);
    }
  }
  return buffer;
}

/// Arguments {rows, cols, bf16}. One thread, so CPU time is the time, also on a machine that does other things.
inline void family_shapes(benchmark::internal::Benchmark* bench) {
  for (int bf16 : {0, 1})
    for (int cols : {768, 3072}) bench->Args({4096, cols, bf16});
  bench->ArgNames({"rows", "cols", "bf16"})->MinTime(0.05)->Repetitions(5)->ReportAggregatesOnly();
}

/// Elements and bytes per second of one run.
inline void count_elements(benchmark::State& state, double elements, double bytes_per_element) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["Elements/s"] = benchmark::Counter(elements, rate);
  state.counters["Bytes/s"] = benchmark::Counter(elements * bytes_per_element, rate);
}

}  // namespace tessera::kernels::testing
