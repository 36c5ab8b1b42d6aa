#include "tessera/base/aligned_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

namespace tessera {
namespace {

template <typename T>
std::uintptr_t address(const AlignedBuffer<T>& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

TEST(AlignedBuffer, SmallOnesAreAlignedToCacheLines) {
  for (std::size_t n : {1u, 3u, 64u, 1000u}) {
    AlignedBuffer<float> buffer(n);
    EXPECT_EQ(buffer.size(), n);
    EXPECT_EQ(address(buffer) % 64, 0u);
    for (std::size_t i = 0; i < n; ++i) buffer[i] = static_cast<float>(i);
    EXPECT_EQ(buffer[n - 1], static_cast<float>(n - 1));
    EXPECT_EQ(buffer.span().size(), n);
  }
}

TEST(AlignedBuffer, LargeOnesAreAlignedToHugePages) {
  AlignedBuffer<std::int8_t> buffer((std::size_t{5} << 20) + 7);
  EXPECT_EQ(address(buffer) % (std::size_t{2} << 20), 0u);
  buffer[buffer.size() - 1] = 1;
}

TEST(AlignedBuffer, EmptyOnesHaveNoMemory) {
  EXPECT_EQ(AlignedBuffer<int>().data(), nullptr);
  EXPECT_EQ(AlignedBuffer<int>(0).data(), nullptr);
}

TEST(AlignedBuffer, MovesHandOverTheMemory) {
  AlignedBuffer<int> first(10);
  const int* data = first.data();
  const AlignedBuffer<int> second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.size(), 10u);
}

TEST(AlignedBuffer, TooMuchIsBadAlloc) {
  EXPECT_THROW(aligned_free(aligned_allocate(std::numeric_limits<std::size_t>::max() / 4)), std::bad_alloc);
}

}  // namespace
}  // namespace tessera
