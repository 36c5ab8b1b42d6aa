#include "tessera/data/tokenizer.h"

#include <gtest/gtest.h>

#include "tessera/base/check.h"

namespace tessera::data {
namespace {

std::string stream(std::string_view bytes) {
  StreamDecoder decoder;
  std::string text;
  for (const std::int64_t id : ByteTokenizer().encode(bytes)) {
    text += decoder.push(id);
  }
  return text + decoder.finish();
}

TEST(ByteTokenizer, EveryByteRoundTrips) {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<char>(i));
  }
  const ByteTokenizer tokenizer;
  const std::vector<std::int64_t> ids = tokenizer.encode(all);
  ASSERT_EQ(ids.size(), 256u);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(ids[i], static_cast<std::int64_t>(i));
  }
  EXPECT_EQ(tokenizer.decode(ids), all);
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_EQ(tokenizer.decode({}), "");
}

TEST(ByteTokenizer, EndOfTextAddsNothingAndForeignIdsAreErrors) {
  const std::vector<std::int64_t> ids = {104, ByteTokenizer::kEndOfText, 105};
  EXPECT_EQ(ByteTokenizer().decode(ids), "hi");
  for (const std::int64_t id : {std::int64_t{-1}, ByteTokenizer::kVocabulary}) {
    EXPECT_THROW(ByteTokenizer().decode({&id, 1}), Error);
    EXPECT_THROW(StreamDecoder().push(id), Error);
  }
}

TEST(StreamDecoder, HoldsBackUnfinishedCharacters) {
  StreamDecoder decoder;
  EXPECT_EQ(decoder.push(0xF0), "");
  EXPECT_EQ(decoder.push(0x9F), "");
  EXPECT_EQ(decoder.push(0x99), "");
  EXPECT_EQ(decoder.push(0x82), "\xF0\x9F\x99\x82");
  EXPECT_EQ(decoder.push('a'), "a");
  EXPECT_EQ(decoder.push(0xC3), "");
  EXPECT_EQ(decoder.push(ByteTokenizer::kEndOfText), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
}

TEST(StreamDecoder, ValidTextPassesUnchanged) {
  // First and last character of each length, and those around the surrogates.
  for (const std::string_view text : {"", "plain", "\x7F", "\u0080\u07FF", "\u0800\uD7FF\uE000\uFFFF",
                                      "\U00010000\U0010FFFF", "a\u00e9\u20ac\U0001F642z"}) {
    EXPECT_EQ(stream(text), text);
  }
}

TEST(StreamDecoder, BrokenPartsBecomeOneReplacementEach) {
  EXPECT_EQ(stream("\x80"), "\uFFFD");                                // continuation without a lead
  EXPECT_EQ(stream("\xC0\xAF"), "\uFFFD\uFFFD");                      // overlong: neither byte can stand
  EXPECT_EQ(stream("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");            // overlong in three bytes
  EXPECT_EQ(stream("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");            // a surrogate
  EXPECT_EQ(stream("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");  // beyond U+10FFFF
  EXPECT_EQ(stream("\xE2\x82"
                   "a"),
            "\uFFFD"
            "a");                                         // cut short by a letter
  EXPECT_EQ(stream("\xE2\x82\xC3\xA9"), "\uFFFD\u00e9");  // cut short by another character
  EXPECT_EQ(stream("\xF0\x9F\x99"), "\uFFFD");            // cut short by the end
  EXPECT_EQ(stream("\xFF\xFE"), "\uFFFD\uFFFD");
}

}  // namespace
}  // namespace tessera::data
