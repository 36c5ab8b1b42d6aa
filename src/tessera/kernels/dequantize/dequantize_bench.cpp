// Codes to floats on one thread.
#include "tessera/kernels/dequantize/dequantize.h"

#include <benchmark/benchmark.h>

#include <vector>

#include "tessera/kernels/testing/bench_data.h"

namespace tessera::kernels {
namespace {

void dequantize(benchmark::State& state, IsaLevel level, bool packed) {
  const std::int64_t rows = state.range(0), cols = state.range(1);
  const FloatType type = state.range(2) ? FloatType::kBf16 : FloatType::kF32;
  if (!detected_isa().has(level)) return state.SkipWithError("this CPU lacks the ISA");
  const auto codes = tessera::testing::random_codes(static_cast<std::size_t>(rows * cols), 7, 1);
  AlignedBuffer<std::uint8_t> y(static_cast<std::size_t>(rows * cols * bytes_of(type)));
  const std::vector<float> scales(static_cast<std::size_t>(rows), 0.5f);
  DequantizeParams p;
  p.rows = rows, p.cols = cols, p.scales = scales.data(), p.y = {y.data(), type, cols}, p.code_stride = cols;
  if (packed) p.int4_packed = reinterpret_cast<const std::uint8_t*>(codes.data());
  if (!packed) p.codes = codes.data();
  tessera::kernels::dequantize(p);  // touches the pages
  for (auto _ : state) tessera::kernels::dequantize(p, detected_isa().up_to(level));
  testing::count_elements(state, static_cast<double>(rows * cols), static_cast<double>(bytes_of(type)));
}

BENCHMARK_CAPTURE(dequantize, packed_avx512, IsaLevel::kAvx512Vnni, true)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(dequantize, codes_avx512, IsaLevel::kAvx512Vnni, false)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(dequantize, packed_avx2, IsaLevel::kAvx2, true)->Apply(testing::family_shapes);

}  // namespace
}  // namespace tessera::kernels
