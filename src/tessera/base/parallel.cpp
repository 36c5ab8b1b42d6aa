#include "tessera/base/parallel.h"

namespace tessera {
namespace {

void serial_for(std::int64_t begin, std::int64_t end, std::int64_t /*grain*/, RangeFunction f) {
  if (begin < end) f(begin, end);
}
int one() { return 1; }

ParallelBackend& backend() {
  static ParallelBackend instance{serial_for, one};
  return instance;
}

}  // namespace

void set_parallel_backend(ParallelBackend b) { backend() = b; }

void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction f) {
  backend().parallel_for(begin, end, grain, f);
}

int num_threads() { return backend().num_threads(); }

}  // namespace tessera
