// dY to row codes, column codes and column sums on one thread.
#include "tessera/kernels/fold_quantize/fold_quantize.h"

#include <benchmark/benchmark.h>

#include "tessera/kernels/testing/bench_data.h"

namespace tessera::kernels {
namespace {

void fold(benchmark::State& state, IsaLevel level, Rounding rounding, bool rows_wanted, bool columns_wanted) {
  const std::int64_t rows = state.range(0), cols = state.range(1);
  const FloatType type = state.range(2) ? FloatType::kBf16 : FloatType::kF32;
  if (!detected_isa().has(level)) return state.SkipWithError("this CPU lacks the ISA");
  const auto y = testing::normal_matrix(rows * cols, type);
  const auto n = static_cast<std::size_t>(rows * cols);
  AlignedBuffer<std::int8_t> row_codes(n), column_codes(n);
  AlignedBuffer<float> row_scales(static_cast<std::size_t>(rows)), column_scales(static_cast<std::size_t>(cols));
  AlignedBuffer<float> row_fold(static_cast<std::size_t>(cols)), column_fold(static_cast<std::size_t>(rows));
  AlignedBuffer<float> sum(static_cast<std::size_t>(cols));
  for (float& f : row_fold.span()) f = 0.5f;
  for (float& f : column_fold.span()) f = 0.25f;
  FoldQuantizeParams p;
  p.rows = rows, p.cols = cols, p.y = {y.data(), type, cols}, p.rounding = rounding, p.key = {1, 2};
  p.row_fold = row_fold.data(), p.column_fold = column_fold.data();
  if (rows_wanted) p.row_codes = row_codes.data(), p.row_scales = row_scales.data(), p.row_stride = cols;
  if (columns_wanted) {
    p.column_codes = column_codes.data(), p.column_scales = column_scales.data(), p.column_stride = rows;
    p.column_sum = sum.data();
  }
  AlignedBuffer<std::byte> workspace(static_cast<std::size_t>(fold_quantize_workspace(p)));
  fold_quantize(p, workspace.data());  // touches the pages
  for (auto _ : state) fold_quantize(p, workspace.data(), detected_isa().up_to(level));
  testing::count_elements(state, static_cast<double>(n), static_cast<double>(bytes_of(type)));
}

constexpr Rounding kSr = Rounding::kStochastic, kRne = Rounding::kNearestEven;
BENCHMARK_CAPTURE(fold, sr_avx512, IsaLevel::kAvx512Vnni, kSr, true, true)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(fold, sr_rows_avx512, IsaLevel::kAvx512Vnni, kSr, true, false)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(fold, sr_columns_avx512, IsaLevel::kAvx512Vnni, kSr, false, true)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(fold, rne_avx512, IsaLevel::kAvx512Vnni, kRne, true, true)->Apply(testing::family_shapes);
BENCHMARK_CAPTURE(fold, sr_avx2, IsaLevel::kAvx2, kSr, true, true)->Apply(testing::family_shapes);

}  // namespace
}  // namespace tessera::kernels
