#include "tessera/base/memory.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tessera {

void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_MAX, 0);         // blocks come from the heap, whatever their size
  mallopt(M_TRIM_THRESHOLD, -1);  // and the heap's end stays
#endif
}

}  // namespace tessera
