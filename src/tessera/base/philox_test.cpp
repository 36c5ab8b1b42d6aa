#include "tessera/base/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

TEST(Philox, KnownAnswers) {  // Random123's kat_vectors, philox4x32 with 7 rounds
  EXPECT_EQ(philox({0, 0}, {0, 0, 0, 0}), (PhiloxBlock{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({kOnes, kOnes}, {kOnes, kOnes, kOnes, kOnes}),
            (PhiloxBlock{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  EXPECT_EQ(philox({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

TEST(Philox, IsAConstantExpression) {
  static_assert(philox({0, 0}, {0, 0, 0, 0})[0] == 0x5f6fb709);
  SUCCEED();
}

TEST(Philox, EveryCounterWordAndKeyWordMatters) {
  const PhiloxBlock base = philox({1, 2}, {3, 4, 5, 6});
  for (std::size_t i = 0; i < 4; ++i) {
    PhiloxBlock counter = {3, 4, 5, 6};
    counter[i] ^= 1;
    EXPECT_NE(philox({1, 2}, counter), base) << i;
  }
  EXPECT_NE(philox({0, 2}, {3, 4, 5, 6}), base);
  EXPECT_NE(philox({1, 3}, {3, 4, 5, 6}), base);
}

TEST(PhiloxKey, DependsOnSeedNameAndRole) {
  const PhiloxKey key = philox_key(7, "h.0.attn.weight", "dy");
  EXPECT_EQ(philox_key(7, "h.0.attn.weight", "dy"), key);
  EXPECT_NE(philox_key(8, "h.0.attn.weight", "dy"), key);
  EXPECT_NE(philox_key(7, "h.1.attn.weight", "dy"), key);
  EXPECT_NE(philox_key(7, "h.0.attn.weight", "init"), key);
  // Name and role are hashed one after the other, not glued together.
  EXPECT_NE(philox_key(7, "ab", "c"), philox_key(7, "a", "bc"));
}

TEST(PhiloxKey, NeverChanges) {  // XXH64: resuming a run depends on these numbers
  const PhiloxKey empty = philox_key(0, "", "");
  // XXH64 of nothing with seed 0 is ef46db3751d8e999, which is then the seed of the second hash.
  const PhiloxKey key = philox_key(42, "wte.weight", "init");
  EXPECT_EQ(empty, (PhiloxKey{0x1fb5d95c, 0xa258d6ec}));
  EXPECT_EQ(key, (PhiloxKey{0x79eda5e3, 0x774dee0a}));
}

TEST(UniformFloat, CoversTheHalfOpenUnitInterval) {
  EXPECT_EQ(uniform_float(0), 0.0f);
  EXPECT_EQ(uniform_float(255), 0.0f);
  EXPECT_EQ(uniform_float(256), 0x1p-24f);
  EXPECT_EQ(uniform_float(0x80000000), 0.5f);
  EXPECT_LT(uniform_float(0xffffffff), 1.0f);
  EXPECT_EQ(uniform_float(0xffffffff), 1.0f - 0x1p-24f);
}

TEST(UniformFloat, BitsOfWordsAreBalanced) {
  // 4096 words per bit: five standard deviations around a half.
  for (int bit = 0; bit < 32; ++bit) {
    int ones = 0;
    for (std::uint32_t i = 0; i < 1024; ++i)
      for (std::uint32_t word : philox({9, 9}, {0, 0, 0, i})) ones += (word >> bit) & 1;
    EXPECT_NEAR(ones, 2048, 5 * 32) << bit;
  }
}

}  // namespace
}  // namespace tessera
