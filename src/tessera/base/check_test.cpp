#include "tessera/base/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Check, PassesWithoutEvaluatingTheMessage) {
  int calls = 0;
  const auto count = [&] { return ++calls; };
  TESSERA_CHECK(true, "called {} times", count());
  EXPECT_EQ(calls, 0);
}

TEST(Check, ThrowsTheSentence) {
  try {
    const int n = 0;
    TESSERA_CHECK(n > 0, "batch is {}, expected at least {}", n, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "batch is 0, expected at least 1");
  }
}

TEST(Check, IsOneStatement) {
  if (true)
    TESSERA_CHECK(true, "not reached");
  else
    FAIL();
}

TEST(Check, OurMistakesNameTheirPlace) {
  try {
    TESSERA_DCHECK(1 + 1 == 3);
    FAIL() << "no error";
  } catch (const InternalError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("check_test.cpp"));
    EXPECT_THAT(error.what(), testing::HasSubstr("1 + 1 == 3"));
  }
}

TEST(Check, FailThrowsError) { EXPECT_THROW(fail("rank {} is gone", 3), Error); }

}  // namespace
}  // namespace tessera
