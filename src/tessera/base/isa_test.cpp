#include "tessera/base/isa.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr IsaLevel kAll[] = {IsaLevel::kReference, IsaLevel::kAvx2, IsaLevel::kAvxVnni, IsaLevel::kAvx512Vnni,
                             IsaLevel::kAmx};

// CPUs to pretend.
constexpr IsaSet kPlain{};
constexpr IsaSet kHaswell{.avx2 = true};
constexpr IsaSet kAlderLake{.avx2 = true, .avx_vnni = true};
constexpr IsaSet kZen4{.avx2 = true, .avx512_vnni = true};
constexpr IsaSet kSapphireRapids{.avx2 = true, .avx_vnni = true, .avx512_vnni = true, .amx_int8 = true};

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Isa, NamesParseBack) {
  for (IsaLevel level : kAll) EXPECT_EQ(parse_isa(isa_name(level)), level);
}

TEST(Isa, UnknownNameIsASentence) {
  EXPECT_EQ(error_of([] { parse_isa("avx9"); }),
            "ISA is 'avx9', expected reference, avx2, avx_vnni, avx512_vnni or amx");
}

TEST(Isa, BestRungOfPretendedCpus) {
  EXPECT_EQ(isa_name(kPlain.best()), "reference");
  EXPECT_EQ(isa_name(kHaswell.best()), "avx2");
  EXPECT_EQ(isa_name(kAlderLake.best()), "avx_vnni");
  EXPECT_EQ(isa_name(kZen4.best()), "avx512_vnni");
  EXPECT_EQ(isa_name(kSapphireRapids.best()), "amx");
}

TEST(Isa, UpToKeepsWhatIsBelow) {
  EXPECT_EQ(kSapphireRapids.up_to(IsaLevel::kAmx), kSapphireRapids);
  EXPECT_EQ(kSapphireRapids.up_to(IsaLevel::kAvxVnni), kAlderLake);
  EXPECT_EQ(kSapphireRapids.up_to(IsaLevel::kReference), kPlain);
  EXPECT_EQ(kZen4.up_to(IsaLevel::kAvxVnni), kHaswell);  // a rung the CPU lacks is not invented
}

TEST(Isa, NotForcedIsWhatWasDetected) { EXPECT_EQ(resolve_isa(kZen4, ""), kZen4); }

TEST(Isa, ForcedIsACeiling) {
  EXPECT_EQ(resolve_isa(kSapphireRapids, "avx2"), kHaswell);
  EXPECT_EQ(resolve_isa(kSapphireRapids, "reference"), kPlain);
  EXPECT_EQ(resolve_isa(kPlain, "reference"), kPlain);
}

TEST(Isa, ForcingWhatTheCpuLacksIsASentence) {
  EXPECT_EQ(error_of([] { resolve_isa(kHaswell, "amx"); }),
            "TESSERA_FORCE_ISA is 'amx', which this CPU lacks; its best is 'avx2'");
  EXPECT_EQ(error_of([] { resolve_isa(kZen4, "avx_vnni"); }),
            "TESSERA_FORCE_ISA is 'avx_vnni', which this CPU lacks; its best is 'avx512_vnni'");
  EXPECT_THAT(error_of([] { resolve_isa(kZen4, "AVX2"); }), testing::HasSubstr("'AVX2'"));
}

TEST(Isa, ThisCpuHasEverythingBelowWhatIsEnabled) {
  const IsaSet detected = detected_isa(), enabled = enabled_isa();
  for (IsaLevel level : kAll) EXPECT_LE(enabled.has(level), detected.has(level)) << isa_name(level);
  EXPECT_THAT(describe_isa(), testing::StartsWith(std::string(isa_name(enabled.best()))));
}

}  // namespace
}  // namespace tessera
