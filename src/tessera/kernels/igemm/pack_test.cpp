// Panels from every kind of source against the layout that igemm.h states.
#include <gtest/gtest.h>

#include "tessera/base/int4.h"
#include "tessera/base/testing/guard_page.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/igemm/igemm.h"
#include "tessera/kernels/igemm/igemm_test_kit.h"

namespace tessera::kernels {
namespace {

using tessera::testing::GuardedArray;
using tessera::testing::ThreadBackend;

std::int8_t code_at(std::int64_t n, std::int64_t k, int limit) {
  return static_cast<std::int8_t>((n * 31 + k * 17 + n * k) % (2 * limit + 1) - limit);
}

/// Pack a guarded source with `gap` bytes between its rows, then read every panel byte back through the layout.
void expect_layout(std::int64_t n, std::int64_t k, bool int4, bool transposed, std::int64_t gap, IsaSet isa) {
  const int limit = int4 ? kInt4Max : kInt8Max;
  const std::int64_t rows = transposed ? k : n, columns = transposed ? n : k;
  const std::int64_t bytes = int4 ? int4_bytes(columns) : columns, row_bytes = bytes + gap;
  GuardedArray<std::uint8_t> source(static_cast<std::size_t>(rows == 0 ? 0 : (rows - 1) * row_bytes + bytes));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int8_t code = transposed ? code_at(c, r, limit) : code_at(r, c, limit);
      std::uint8_t* row = source.data() + r * row_bytes;
      int4 ? int4_set(row, c, code) : static_cast<void>(row[c] = static_cast<std::uint8_t>(code));
    }
  GuardedArray<std::int8_t> panels(static_cast<std::size_t>(igemm_packed_b_bytes(n, k)));
  std::fill(panels.begin(), panels.end(), std::int8_t{99});
  PackSource from{.row_bytes = row_bytes, .transposed = transposed};
  if (int4) from.int4_packed = source.data();
  if (!int4) from.codes = reinterpret_cast<const std::int8_t*>(source.data());
  igemm_pack_b(from, {panels.data(), n, k}, isa);

  const std::int64_t padded_k = igemm_padded_k(k);
  for (std::int64_t j = 0; j < (n + 15) / 16 * 16; ++j)
    for (std::int64_t d = 0; d < padded_k; ++d) {
      const std::int8_t expected = j < n && d < k ? code_at(j, d, limit) : std::int8_t{0};
      const std::int64_t at = j / 16 * 16 * padded_k + d / 4 * 64 + j % 16 * 4 + d % 4;
      ASSERT_EQ(panels[static_cast<std::size_t>(at)], expected)
          << "n " << n << " k " << k << " column " << j << " depth " << d << (int4 ? " int4" : " int8")
          << (transposed ? " transposed" : "");
    }
}

class PackTest : public ::testing::TestWithParam<IsaLevel> {};

TEST_P(PackTest, EverySourceOverShapes) {
  if (!detected_isa().has(GetParam())) GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam());
  const std::int64_t sizes[] = {0, 1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 257};
  for (std::int64_t n : sizes)
    for (std::int64_t k : sizes)
      for (int kind = 0; kind < 4; ++kind)
        ASSERT_NO_FATAL_FAILURE(expect_layout(n, k, kind & 1, kind & 2, n % 5, detected_isa().up_to(GetParam())));
}

TEST_P(PackTest, ThreadsDoNotChangeBytes) {
  if (!detected_isa().has(GetParam())) GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam());
  const ThreadBackend scope(2);
  for (int kind = 0; kind < 4; ++kind) expect_layout(391, 130, kind & 1, kind & 2, 0, detected_isa().up_to(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Levels, PackTest,
                         ::testing::Values(IsaLevel::kReference, IsaLevel::kAvx2, IsaLevel::kAvx512Vnni),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

TEST(LeftOperand, StridePadsAndAvoidsCacheSets) {
  EXPECT_EQ(igemm_padded_k(0), 0);
  EXPECT_EQ(igemm_padded_k(1), 64);
  EXPECT_EQ(igemm_padded_k(64), 64);
  for (std::int64_t k = 0; k < 5000; k += 37) {
    EXPECT_GE(igemm_a_stride(k), igemm_padded_k(k));
    EXPECT_EQ(igemm_a_stride(k) / 64 % 2, 1) << k;
    EXPECT_EQ(igemm_a_stride(k) % 64, 0) << k;
  }
}

}  // namespace
}  // namespace tessera::kernels
