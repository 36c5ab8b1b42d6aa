// Which kernel a CPU gets, asserted by name for pretended CPUs, so that it runs anywhere.
#include <gtest/gtest.h>

#include "tessera/kernels/igemm/igemm.h"
#include "tessera/kernels/igemm/igemm_test_kit.h"

namespace tessera::kernels {
namespace {

constexpr IsaSet kEverything{.avx2 = true, .avx_vnni = true, .avx512_vnni = true, .amx_int8 = true};

TEST(SelectIgemm, ReferenceServesEveryCpu) { EXPECT_EQ(select_igemm(IsaSet{}).name, "igemm_reference"); }

TEST(SelectIgemm, TableEndsWithTheReference) {
  ASSERT_FALSE(testing::table().empty());
  EXPECT_EQ(testing::table().back().name, "igemm_reference");
  EXPECT_EQ(testing::table().back().level, IsaLevel::kReference);
}

TEST(SelectIgemm, TableIsBestFirst) {
  for (std::size_t i = 1; i < testing::table().size(); ++i)
    EXPECT_GT(testing::table()[i - 1].level, testing::table()[i].level) << testing::table()[i].name;
}

#ifdef TESSERA_HAVE_JIT
TEST(SelectIgemm, TakesTheBestThatTheCpuHas) {
  EXPECT_EQ(select_igemm(kEverything).name, "igemm_32x32_amx");
  EXPECT_EQ(select_igemm(IsaSet{.avx2 = true, .avx512_vnni = true}).name, "igemm_12x32_avx512_vnni");
}

TEST(SelectIgemm, ForcedLevelIsACeiling) {
  EXPECT_EQ(select_igemm(kEverything.up_to(IsaLevel::kAvx512Vnni)).name, "igemm_12x32_avx512_vnni");
  EXPECT_EQ(select_igemm(kEverything.up_to(IsaLevel::kReference)).name, "igemm_reference");
}
#else
TEST(SelectIgemm, WithoutGeneratorsTheReferenceServesAll) {
  EXPECT_EQ(select_igemm(kEverything).name, "igemm_reference");
}
#endif

}  // namespace
}  // namespace tessera::kernels
