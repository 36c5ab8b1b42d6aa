// Rows to codes on one thread: what weights, activations of w4a8 and of int7 ask for.
#include "tessera/kernels/rotate_quantize/rotate_quantize.h"

#include <benchmark/benchmark.h>

#include "tessera/base/int4.h"
#include "tessera/kernels/testing/bench_data.h"

namespace tessera::kernels {
namespace {

enum Outputs { kRms4Packed, kRms4Codes, kAbsmax, kBoth };

void rotate(benchmark::State& state, IsaLevel level, Outputs outputs, std::int32_t block) {
  const std::int64_t rows = state.range(0), cols = state.range(1);
  const FloatType type = state.range(2) ? FloatType::kBf16 : FloatType::kF32;
  if (!detected_isa().has(level)) return state.SkipWithError("this CPU lacks the ISA");
  const auto x = testing::normal_matrix(rows * cols, type);
  const auto n = static_cast<std::size_t>(rows * cols), height = static_cast<std::size_t>(rows);
  AlignedBuffer<std::uint8_t> packed(n / 2), mask(n / 8);
  AlignedBuffer<std::int8_t> codes(n), absmax(n);
  AlignedBuffer<float> scales(height), absmax_scales(height);
  RotateQuantizeParams p;
  p.rows = rows, p.cols = cols, p.block = block, p.x = {x.data(), type, cols}, p.code_stride = cols;
  p.int4_scales = scales.data();
  if (outputs != kAbsmax) p.int4_packed = packed.data();
  if (outputs == kRms4Packed || outputs == kRms4Codes) p.trust_mask = mask.data();
  if (outputs == kRms4Codes) p.int4_codes = codes.data();
  if (outputs == kAbsmax || outputs == kBoth) p.absmax_codes = absmax.data(), p.absmax_scales = absmax_scales.data();
  rotate_quantize(p);  // touches the pages
  for (auto _ : state) rotate_quantize(p, detected_isa().up_to(level));
  testing::count_elements(state, static_cast<double>(n), static_cast<double>(bytes_of(type)));
}

BENCHMARK_CAPTURE(rotate, rms4_packed_avx512, IsaLevel::kAvx512Vnni, kRms4Packed, 128)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(rotate, rms4_codes_avx512, IsaLevel::kAvx512Vnni, kRms4Codes, 128)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(rotate, absmax_avx512, IsaLevel::kAvx512Vnni, kAbsmax, 128)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(rotate, w4a8_avx512, IsaLevel::kAvx512Vnni, kBoth, 128)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(rotate, w4a8_block256_avx512, IsaLevel::kAvx512Vnni, kBoth, 256)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(rotate, w4a8_avx2, IsaLevel::kAvx2, kBoth, 128)->Apply(testing::family_shapes);

}  // namespace
}  // namespace tessera::kernels
