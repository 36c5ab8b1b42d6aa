// Out of the rotated domain on one thread, to f32 and bf16 as the argument says.
#include "tessera/kernels/unrotate/unrotate.h"

#include <benchmark/benchmark.h>

#include "tessera/kernels/testing/bench_data.h"

namespace tessera::kernels {
namespace {

void unrotate(benchmark::State& state, IsaLevel level, bool masked, bool gelu) {
  const std::int64_t rows = state.range(0), cols = state.range(1);
  const FloatType type = state.range(2) ? FloatType::kBf16 : FloatType::kF32;
  if (!detected_isa().has(level)) return state.SkipWithError("this CPU lacks the ISA");
  const auto t = testing::normal_matrix(rows * cols, type);
  auto y = testing::normal_matrix(rows * cols, type);
  AlignedBuffer<std::uint8_t> mask(static_cast<std::size_t>(rows * cols / 8));
  for (std::uint8_t& bits : mask.span()) bits = 0xfe;
  UnrotateParams p;
  p.rows = rows, p.cols = cols, p.block = 128;
  p.t = {t.data(), type, cols}, p.y = {y.data(), type, cols};
  if (masked) p.mask = mask.data();
  const auto x = testing::normal_matrix(rows * cols, type);
  if (gelu) p.gelu_x = x.data();
  tessera::kernels::unrotate(p);  // touches the pages
  for (auto _ : state) tessera::kernels::unrotate(p, detected_isa().up_to(level));
  testing::count_elements(state, static_cast<double>(rows * cols), 2.0 * static_cast<double>(bytes_of(type)));
}

BENCHMARK_CAPTURE(unrotate, plain_avx512, IsaLevel::kAvx512Vnni, false, false)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(unrotate, masked_gelu_avx512, IsaLevel::kAvx512Vnni, true, true)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(unrotate, plain_avx2, IsaLevel::kAvx2, false, false)->Apply(testing::family_shapes);

}  // namespace
}  // namespace tessera::kernels
