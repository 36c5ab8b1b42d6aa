#include "tessera/quant/torch_parallel.h"

#include <ATen/Parallel.h>
#include <c10/util/ParallelGuard.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"

// The OpenMP runtime that torch links, called by name: at::parallel_for is a header template that is parallel only
// under -fopenmp, and clang's -fopenmp would bring a second runtime.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_thread_num();
int omp_get_num_threads();
}

namespace tessera::quant {
namespace {

struct Region {
  std::int64_t begin, end, grain;
  RangeFunction f;
  std::exception_ptr error;
  std::once_flag first_error;
};

void run_share(void* data) {
  auto& region = *static_cast<Region*>(data);
  const std::int64_t threads = omp_get_num_threads(), share = div_ceil(region.end - region.begin, threads);
  const std::int64_t begin = region.begin + omp_get_thread_num() * share;
  if (begin >= region.end) return;
  const c10::ParallelGuard guard(true);
  try {
    region.f(begin, std::min(region.end, begin + share));
  } catch (...) {
    std::call_once(region.first_error, [&] { region.error = std::current_exception(); });
  }
}

void torch_parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction f) {
  if (begin >= end) return;
  const std::int64_t most = div_ceil(end - begin, std::max<std::int64_t>(grain, 1));
  const auto threads = static_cast<unsigned>(std::min<std::int64_t>(at::get_num_threads(), most));
  if (threads <= 1 || at::in_parallel_region()) {
    const c10::ParallelGuard guard(true);
    f(begin, end);
    return;
  }
  Region region{begin, end, grain, f, nullptr, {}};
  GOMP_parallel(run_share, &region, threads, 0);
  if (region.error) std::rethrow_exception(region.error);
}

}  // namespace

void use_torch_threads() {
  static const bool installed = [] {
    at::get_num_threads();  // makes torch read OMP_NUM_THREADS and settle its pool first
    set_parallel_backend({torch_parallel_for, at::get_num_threads});
    return true;
  }();
  (void)installed;
}

}  // namespace tessera::quant
