#include "tessera/base/aligned_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "tessera/base/math.h"

namespace tessera {
namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
}

void* aligned_allocate(std::size_t bytes) {
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : 64;
  void* data = std::aligned_alloc(alignment, round_up(bytes, alignment));
  if (data == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) advise_huge_pages(data, round_up(bytes, alignment));
  return data;
}

void aligned_free(void* data) noexcept { std::free(data); }

void advise_huge_pages(void* data, std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);
#else
  (void)data;
  (void)bytes;
#endif
}

}  // namespace tessera
