#include "tessera/base/int4.h"

#include <gtest/gtest.h>

#include <vector>

#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"

namespace tessera {
namespace {

TEST(Int4, BytesRoundUp) {
  EXPECT_EQ(int4_bytes(0), 0);
  EXPECT_EQ(int4_bytes(1), 1);
  EXPECT_EQ(int4_bytes(2), 1);
  EXPECT_EQ(int4_bytes(769), 385);
}

TEST(Int4, Golden) {  // low nibble first, two's complement
  std::uint8_t row[2] = {0, 0};
  int4_set(row, 0, 7);
  int4_set(row, 1, -7);
  int4_set(row, 2, -1);
  EXPECT_EQ(row[0], 0x97);
  EXPECT_EQ(row[1], 0x0f);
}

TEST(Int4, EveryPairOfCodesComesBack) {
  for (int low = -8; low <= 7; ++low) {  // -8 is never made, but must be readable where it is met
    for (int high = -8; high <= 7; ++high) {
      std::uint8_t byte = 0xa5;
      int4_set(&byte, 1, high);
      int4_set(&byte, 0, low);
      EXPECT_EQ(int4_get(&byte, 0), low);
      EXPECT_EQ(int4_get(&byte, 1), high);
    }
  }
}

TEST(Int4, RowsOfEveryLengthComeBackInAnyOrder) {
  for (std::int64_t n : testing::kLengths) {
    const std::vector<std::int8_t> codes = testing::random_codes(static_cast<std::size_t>(n), kInt4Max, 71);
    std::vector<std::uint8_t> row(static_cast<std::size_t>(int4_bytes(n)), 0);
    for (std::int64_t i = n - 1; i >= 0; --i) int4_set(row.data(), i, codes[static_cast<std::size_t>(i)]);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(int4_get(row.data(), i), codes[static_cast<std::size_t>(i)]);
    if (n % 2) {
      EXPECT_EQ(row.back() >> 4, 0);
    }
  }
}

}  // namespace
}  // namespace tessera
