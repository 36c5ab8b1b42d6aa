#include "tessera/base/memory.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tessera {

void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes: a fixed threshold, below it the heap serves
  mallopt(M_TRIM_THRESHOLD, -1);        // and the heap's end stays
#endif
}

}  // namespace tessera
