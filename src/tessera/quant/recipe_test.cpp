#include "tessera/quant/recipe.h"

#include <gtest/gtest.h>

#include "tessera/base/check.h"

namespace tessera::quant {
namespace {

TEST(HadamardBlock, LargestPowerOfTwoThatDivides) {
  EXPECT_EQ(hadamard_block_for(768, 0), 128);
  EXPECT_EQ(hadamard_block_for(768, 256), 256);
  EXPECT_EQ(hadamard_block_for(192, 0), 64);
  EXPECT_EQ(hadamard_block_for(48, 0), 16);
  EXPECT_EQ(hadamard_block_for(1024, 32), 32);
  EXPECT_THROW(hadamard_block_for(40, 0), Error);
  EXPECT_THROW(hadamard_block_for(0x7fffffff, 0), Error);
  EXPECT_THROW(hadamard_block_for(768, 24), Error);
  EXPECT_THROW(hadamard_block_for(768, 512), Error);
}

TEST(Recipe, NamesRoundTrip) {
  for (const std::string& name : Recipe::names()) EXPECT_EQ(Recipe::named(name).describe(), name);
  EXPECT_THROW(Recipe::named(""), Error);
  EXPECT_THROW(Recipe::named("W4A8"), Error);
}

TEST(Recipe, KnowsWhetherItRotates) {
  for (const std::string& name : Recipe::names())
    EXPECT_EQ(Recipe::named(name).rotates(), name == "int7" || name == "rms4" || name == "w4a8") << name;
  Recipe recipe = Recipe::named("int7");
  recipe.override_product("forward", "fp32");
  recipe.override_product("dx", "int8");
  EXPECT_TRUE(recipe.rotates());
  EXPECT_EQ(recipe.describe(), "int7, forward fp32, dx int8");
  recipe.override_product("dw", "bf16");
  EXPECT_FALSE(recipe.rotates());
  EXPECT_THROW(recipe.override_product("dw", "int7"), Error);
}

}  // namespace
}  // namespace tessera::quant
