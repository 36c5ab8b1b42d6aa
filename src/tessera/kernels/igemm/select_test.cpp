// Which kernel a CPU gets, asserted by name for pretended CPUs, so that it runs anywhere.
#include <gtest/gtest.h>

#include "tessera/kernels/igemm/igemm.h"

namespace tessera::kernels {
namespace {

constexpr IsaSet kEverything{.avx2 = true, .avx_vnni = true, .avx512_vnni = true, .amx_int8 = true};

TEST(SelectIgemm, ReferenceServesEveryCpu) { EXPECT_EQ(select_igemm(IsaSet{}).name, "igemm_reference"); }

TEST(SelectIgemm, TableEndsWithTheReference) {
  ASSERT_FALSE(igemm_kernels().empty());
  EXPECT_EQ(igemm_kernels().back().name, "igemm_reference");
  EXPECT_EQ(igemm_kernels().back().level, IsaLevel::kReference);
}

TEST(SelectIgemm, TableIsBestFirst) {
  for (std::size_t i = 1; i < igemm_kernels().size(); ++i)
    EXPECT_GE(igemm_kernels()[i - 1].level, igemm_kernels()[i].level) << igemm_kernels()[i].name;
}

#ifdef TESSERA_HAVE_JIT
TEST(SelectIgemm, TakesTheBestThatTheCpuHas) {
  EXPECT_EQ(select_igemm(kEverything).name, "igemm_32x32_amx");
  EXPECT_EQ(select_igemm(IsaSet{.avx2 = true, .avx512_vnni = true}).name, "igemm_12x32_avx512_vnni");
  EXPECT_EQ(select_igemm(IsaSet{.avx2 = true, .avx_vnni = true}).name, "igemm_6x32_avx_vnni");
  EXPECT_EQ(select_igemm(IsaSet{.avx2 = true}).name, "igemm_6x32_avx2");
}

TEST(SelectIgemm, WideCodesNeverGetANarrowKernel) {
  for (const auto& [a, b] : {std::pair{127, 127}, {127, 7}, {98, 30}, {64, 64}})
    EXPECT_FALSE(select_igemm(detected_isa(), a, b).narrow) << a << " x " << b;
}

TEST(SelectIgemm, NarrowCodesGetTheFasterKernelOfTheirLevel) {
  const IgemmKernel& general = select_igemm(detected_isa());
  for (const auto& [a, b] : {std::pair{7, 7}, {98, 7}, {63, 63}}) {
    const IgemmKernel& chosen = select_igemm(detected_isa(), a, b);
    EXPECT_EQ(chosen.level, general.level);
    EXPECT_EQ(&chosen, &select_igemm(detected_isa(), a, b)) << "the measurement is made once";
    EXPECT_TRUE(chosen.narrow || chosen.name == general.name) << chosen.name;
  }
}

TEST(SelectIgemm, ForcedLevelIsACeiling) {
  EXPECT_EQ(select_igemm(kEverything.up_to(IsaLevel::kAvx512Vnni)).name, "igemm_12x32_avx512_vnni");
  EXPECT_EQ(select_igemm(kEverything.up_to(IsaLevel::kAvxVnni)).name, "igemm_6x32_avx_vnni");
  EXPECT_EQ(select_igemm(kEverything.up_to(IsaLevel::kAvx2)).name, "igemm_6x32_avx2");
  EXPECT_EQ(select_igemm(kEverything.up_to(IsaLevel::kReference)).name, "igemm_reference");
}
#else
TEST(SelectIgemm, WithoutGeneratorsTheReferenceServesAll) {
  EXPECT_EQ(select_igemm(kEverything).name, "igemm_reference");
}
#endif

}  // namespace
}  // namespace tessera::kernels
