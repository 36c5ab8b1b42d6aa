#include "tessera/quant/dense_matmul.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/base/part_timers.h"
#include "tessera/quant/torch_parallel.h"

// The OpenMP runtime that torch links (see torch_parallel.cpp), and MKL, weak because not every build of torch has it;
// its setter returns the thread's earlier setting.
extern "C" {
void omp_set_num_threads(int threads);
int omp_get_max_threads();
__attribute__((weak)) int MKL_Set_Num_Threads_Local(int threads);
}

namespace tessera::quant {
namespace {

// MKL and oneDNN plan for as many threads as the settings allow, even where a parallel region leaves them one, and
// their sums follow the plan. Within this scope the calling thread's settings say one.
class OneLibraryThread {
 public:
  OneLibraryThread() : omp_(omp_get_max_threads()) {
    omp_set_num_threads(1);
    if (MKL_Set_Num_Threads_Local != nullptr) mkl_ = MKL_Set_Num_Threads_Local(1);
  }
  ~OneLibraryThread() {
    omp_set_num_threads(omp_);
    if (MKL_Set_Num_Threads_Local != nullptr) MKL_Set_Num_Threads_Local(mkl_);
  }
  OneLibraryThread(const OneLibraryThread&) = delete;
  OneLibraryThread& operator=(const OneLibraryThread&) = delete;

 private:
  int omp_, mkl_ = 0;
};

// Calls f(dim, begin, size) for every block of the output. At least two blocks, because a lone one would run outside a
// parallel region, where the library takes threads of its own.
template <typename F>
void for_output_blocks(std::int64_t m, std::int64_t n, F f) {
  use_torch_threads();
  const int dim = m >= 2 ? 0 : 1;
  const std::int64_t size = dim == 0 ? m : n;
  const std::int64_t block =
      std::clamp<std::int64_t>(round_up(div_ceil<std::int64_t>(size, 2), std::int64_t{16}), 1, 128);
  const std::int64_t step = block >= size ? std::max<std::int64_t>(div_ceil<std::int64_t>(size, 2), 1) : block;
  parallel_for(0, div_ceil(size, step), 1, [&](std::int64_t begin, std::int64_t end) {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;  // workers do not inherit the caller's grad mode
    const OneLibraryThread one_thread;
    for (std::int64_t i = begin; i < end; ++i) f(dim, i * step, std::min(step, size - i * step));
  });
}

void check_operands(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK_VALUE(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "cannot multiply ", a.sizes(), " by ",
                    b.sizes());
  TORCH_CHECK_TYPE(a.scalar_type() == b.scalar_type(), "operands are ", a.scalar_type(), " and ", b.scalar_type());
}

}  // namespace

at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b) {
  const ScopedPart part(Part::kDenseMatmul);
  check_operands(a, b);
  const std::int64_t m = a.size(0), n = b.size(1);
  at::Tensor out = at::empty({m, n}, a.options().requires_grad(false));
  for_output_blocks(m, n, [&](int dim, std::int64_t begin, std::int64_t size) {
    at::Tensor block = out.narrow(dim, begin, size);
    at::mm_out(block, dim == 0 ? a.narrow(0, begin, size) : a, dim == 0 ? b : b.narrow(1, begin, size));
  });
  return out;
}

void dense_matmul_add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out) {
  const ScopedPart part(Part::kDenseMatmul);
  check_operands(a, b);
  for_output_blocks(a.size(0), b.size(1), [&](int dim, std::int64_t begin, std::int64_t size) {
    at::Tensor block = out.narrow(dim, begin, size);
    block.add_(at::mm(dim == 0 ? a.narrow(0, begin, size) : a, dim == 0 ? b : b.narrow(1, begin, size)));
  });
}

}  // namespace tessera::quant
