#include "tessera/base/math.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace tessera {
namespace {

template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Math, DivCeilAndRoundUp) {
  EXPECT_EQ(div_ceil(0, 4), 0);
  EXPECT_EQ(div_ceil(1, 4), 1);
  EXPECT_EQ(div_ceil(4, 4), 1);
  EXPECT_EQ(div_ceil(5, 4), 2);
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(round_up(std::int64_t{1} << 40, std::int64_t{3}), (std::int64_t{1} << 40) + 2);
}

TEST(Math, DivExactDividesOrSaysWhy) {
  EXPECT_EQ(div_exact(768, 128, "width"), 6);
  EXPECT_EQ(error_of([] { div_exact(770, 128, "width"); }), "width is 770, which 128 does not divide");
  EXPECT_EQ(error_of([] { div_exact(770, 0, "width"); }), "width is 770, which 0 does not divide");
  EXPECT_EQ(error_of([] { div_exact(770, -7, "width"); }), "width is 770, which -7 does not divide");
}

TEST(Math, NarrowKeepsTheValueOrSaysWhy) {
  EXPECT_EQ((narrow<std::int32_t>(std::int64_t{-5}, "rows")), -5);
  EXPECT_EQ((narrow<std::uint8_t>(255, "byte")), 255);
  EXPECT_EQ(error_of([] { narrow<std::uint8_t>(256, "byte"); }), "byte is 256, which does not fit its type");
  EXPECT_EQ(error_of([] { narrow<std::uint32_t>(-1, "count"); }), "count is -1, which does not fit its type");
  EXPECT_EQ((narrow<std::uint64_t>(std::numeric_limits<std::int64_t>::max(), "n")), 0x7fffffffffffffffu);
}

}  // namespace
}  // namespace tessera
