#include "tessera/kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/testing/random.h"
#include "tessera/base/testing/shapes.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/base/testing/tolerance.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using testing::for_each_simd_target;
using Floats = std::vector<float>;

constexpr std::int64_t kVocabulary = 11;

std::vector<std::int64_t> random_ids(std::int64_t n) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < n; ++i)
    ids.push_back(tessera::testing::random_word(1, static_cast<std::uint64_t>(i)) % kVocabulary);
  return ids;
}

Floats start_table(std::int64_t cols) {
  return tessera::testing::normal_values(static_cast<std::size_t>(kVocabulary * cols), 2);
}

Floats gradient(std::int64_t n, std::int64_t cols) {
  return tessera::testing::normal_values(static_cast<std::size_t>(n * cols), 3);
}

Floats result(std::int64_t n, std::int64_t cols, IsaSet isa) {
  Floats table = start_table(cols);
  embedding_backward(random_ids(n).data(), n, gradient(n, cols).data(), cols, table.data(), isa);
  return table;
}

TEST(EmbeddingBackward, TargetsEqualReferenceOnEveryShape) {
  for (const auto [rows, cols] : tessera::testing::kShapes) {
    Floats expected = start_table(cols);
    embedding_backward_reference(random_ids(rows).data(), rows, gradient(rows, cols).data(), cols, expected.data(), 0,
                                 cols);
    EXPECT_EQ(result(rows, cols, IsaSet{}), expected);
    for_each_simd_target([&](IsaSet isa) { EXPECT_EQ(result(rows, cols, isa), expected) << rows << " x " << cols; });
  }
}

TEST(EmbeddingBackward, TargetsEqualReferenceOnEveryLength) {
  for (std::int64_t cols : tessera::testing::kLengths) {
    const Floats expected = result(5, cols, IsaSet{});
    for_each_simd_target([&](IsaSet isa) { EXPECT_EQ(result(5, cols, isa), expected) << cols; });
  }
}

TEST(EmbeddingBackward, EqualsOneHotProductInDouble) {
  const std::int64_t n = 67, cols = 33;
  const std::vector<std::int64_t> ids = random_ids(n);
  const Floats dy = gradient(n, cols), start = start_table(cols), got = result(n, cols, enabled_isa());
  for (std::int64_t row = 0; row < kVocabulary; ++row) {
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto at = static_cast<std::size_t>(row * cols + c);
      double sum = start[at], magnitude = std::abs(sum);
      int terms = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        if (ids[static_cast<std::size_t>(i)] != row) continue;
        const double term = dy[static_cast<std::size_t>(i * cols + c)];
        sum += term, magnitude += std::abs(term), ++terms;
      }
      EXPECT_NEAR(got[at], sum, tessera::testing::error_bound(terms, tessera::testing::kEpsF32, magnitude));
    }
  }
}

TEST(EmbeddingBackward, RowsOfOtherIdsAreNotTouched) {
  Floats table(3 * 17, std::numeric_limits<float>::quiet_NaN());
  std::fill_n(table.begin() + 17, 17, 0.0f);
  const std::vector<std::int64_t> ids(5, 1);
  embedding_backward(ids.data(), 5, Floats(5 * 17, 1).data(), 17, table.data());
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (i / 17 == 1) {
      EXPECT_EQ(table[i], 5.0f);
    } else {
      EXPECT_TRUE(std::isnan(table[i]));
    }
  }
}

TEST(EmbeddingBackward, ThreadsDoNotMatter) {
  const Floats one = result(523, 129, enabled_isa());
  for (int threads : {2, 3, 7}) {
    tessera::testing::ThreadBackend backend(threads);
    EXPECT_EQ(result(523, 129, enabled_isa()), one) << threads;
  }
}

}  // namespace
}  // namespace tessera::kernels
