#pragma once
// The benchmarks of `tessera bench`. Only their implementations know torch.
#include <cstdint>
#include <string>
#include <vector>

#include "bench/interleave.h"
#include "bench/report.h"

namespace tessera::cli {

/// [rows, depth] x [columns, depth]^T, as the forward product of a linear layer from `depth` to `columns` features.
struct Shape {
  std::int64_t rows = 0, depth = 0, columns = 0;
  std::string name() const;  ///< "4096x768x3072"
  double operations() const { return 2.0 * static_cast<double>(rows) * static_cast<double>(depth * columns); }
};

struct BenchOptions {
  std::vector<Shape> shapes;
  std::vector<std::string> recipes;  ///< linear only
  std::int64_t threads = 0;          ///< 0: as many as torch chooses
  TimingOptions timing;
};

/// Give torch, and with it our kernels, this many threads (0: torch's choice); returns how many there are.
std::int64_t use_threads(std::int64_t threads);

/// igemm on a packed weight with both scales and bf16 output, beside torch's fp32, bf16 and INT8 products and the
/// machine's peak.
std::vector<BenchRow> bench_gemm(const BenchOptions& options);

/// Forward and backward of nn::Linear by each recipe, everything included (the weight is quantized anew each time, as
/// after an optimizer step), beside torch's Linear in fp32 and bf16; inputs and outputs have the peer's type.
std::vector<BenchRow> bench_linear(const BenchOptions& options);

}  // namespace tessera::cli
