#include "tessera/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera::data {
namespace {

using tessera::testing::SmallDisk;
using tessera::testing::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const Vocabulary kBytes{257, "byte", 256};

void write_tokens(const std::filesystem::path& path, const Vocabulary& vocabulary,
                  const std::vector<std::int64_t>& ids) {
  TokenFileWriter writer(path, vocabulary);
  writer.append(ids);
  writer.commit();
}

/// A small valid file in memory.
std::string sample() {
  const TemporaryDirectory directory;
  write_tokens(directory / "a", kBytes, {104, 105, 256, 33});
  return read_file(directory / "a");
}

void open_bytes(const std::string& bytes, Verify verify = Verify::kAll) {
  const TokenFile file(std::as_bytes(std::span(bytes)), "a.tok", verify);
}

template <typename T>
void poke(std::string& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

/// Make the checksums right again, so that a test reaches what lies behind them.
std::string repaired(std::string bytes) {
  const auto all = std::as_bytes(std::span(bytes));
  poke(bytes, 48, xxh3(all.subspan(128)));
  poke(bytes, 120, xxh3(all.first(120)));
  return bytes;
}

TEST(TokenFile, TheFormatIsTheDocumentedOne) {
  const std::string bytes = sample();
  ASSERT_EQ(bytes.size(), 128u + 4 * 2);
  const auto field = [&](std::size_t offset, std::size_t size) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      value |= std::uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
    }
    return value;
  };
  EXPECT_EQ(bytes.substr(0, 8), "TSRATOK\n");
  EXPECT_EQ(field(8, 4), 1u);
  EXPECT_EQ(field(12, 4), 2u);
  EXPECT_EQ(field(16, 8), 257u);
  EXPECT_EQ(field(24, 8), 256u);
  EXPECT_EQ(field(32, 8), 4u);
  EXPECT_EQ(field(40, 8), 2u);
  EXPECT_EQ(field(48, 8), xxh3(std::as_bytes(std::span(bytes)).subspan(128)));
  EXPECT_EQ(bytes.substr(56, 64), std::string("byte") + std::string(60, '\0'));
  EXPECT_EQ(field(120, 8), xxh3(std::as_bytes(std::span(bytes)).first(120)));
  EXPECT_EQ(bytes.substr(128), std::string("\x68\0\x69\0\0\1\x21\0", 8));
}

TEST(TokenFile, WidthFollowsTheVocabulary) {
  struct Case {
    std::int64_t vocabulary;
    int bytes;
  };
  for (const auto& [size, bytes] :
       {Case{1, 1}, {255, 1}, {256, 1}, {257, 2}, {65536, 2}, {65537, 4}, {std::int64_t{1} << 31, 4}}) {
    SCOPED_TRACE(size);
    const TemporaryDirectory directory;
    const std::vector<std::int64_t> ids = {0, size - 1, size / 2};
    write_tokens(directory / "a", {size, "t", -1}, ids);
    const TokenFile file(directory / "a");
    EXPECT_EQ(file.bytes_per_token(), bytes);
    EXPECT_EQ(token_bytes(size), bytes);
    std::vector<std::int64_t> back(3);
    file.copy(0, back);
    EXPECT_EQ(back, ids);
    EXPECT_EQ(file.token(1), size - 1);
  }
}

TEST(TokenFile, StreamedPiecesEqualOneWrite) {
  const TemporaryDirectory directory;
  std::vector<std::int64_t> ids(300'007);  // beyond the writer's buffer
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int64_t>(i * i % 257);
  }
  write_tokens(directory / "whole", kBytes, ids);
  TokenFileWriter writer(directory / "pieces", kBytes);
  for (std::size_t begin = 0, size = 0; begin < ids.size(); begin += size, size = size * 2 + 1) {
    writer.append(std::span(ids).subspan(begin, std::min(size, ids.size() - begin)));
  }
  EXPECT_EQ(writer.tokens(), 300'007);
  writer.commit();
  EXPECT_EQ(read_file(directory / "pieces"), read_file(directory / "whole"));
  const TokenFile file(directory / "pieces");
  std::vector<std::int64_t> middle(1000);
  file.copy(299'007, middle);
  EXPECT_TRUE(std::equal(middle.begin(), middle.end(), ids.begin() + 299'007));
}

TEST(TokenFile, CountsDocuments) {
  const TemporaryDirectory directory;
  int n = 0;
  const auto documents = [&](const Vocabulary& vocabulary, const std::vector<std::int64_t>& ids) {
    const auto path = directory / std::to_string(n++);
    write_tokens(path, vocabulary, ids);
    return TokenFile(path).documents();
  };
  EXPECT_EQ(documents(kBytes, {1, 2, 256}), 1);
  EXPECT_EQ(documents(kBytes, {1, 256, 2}), 2);
  EXPECT_EQ(documents(kBytes, {256, 256}), 2);
  EXPECT_EQ(documents({257, "byte", -1}, {1, 256, 2}), 1);
}

TEST(TokenFile, CopyChecksItsRange) {
  const std::string bytes = sample();
  const TokenFile file(std::as_bytes(std::span(bytes)), "a.tok");
  std::vector<std::int64_t> out(2);
  EXPECT_NO_THROW(file.copy(2, out));
  EXPECT_NO_THROW(file.copy(4, std::span(out).first(0)));
  for (const std::int64_t begin : {std::int64_t{-1}, std::int64_t{3}, std::int64_t{5}, INT64_MAX, INT64_MIN}) {
    EXPECT_THROW(file.copy(begin, out), Error) << begin;
  }
}

TEST(TokenFile, EveryTruncationIsAnError) {
  const std::string bytes = sample();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(open_bytes(bytes.substr(0, length)), Error) << length;
    EXPECT_THROW(open_bytes(bytes.substr(0, length), Verify::kHeader), Error) << length;
  }
  EXPECT_THROW(open_bytes(bytes + '\0'), Error);
  EXPECT_THROW(open_bytes(bytes + std::string(2, '\0')), Error);
}

TEST(TokenFile, EveryFlippedBitIsAnError) {
  const std::string bytes = sample();
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(open_bytes(damaged), Error) << "bit " << bit;
  }
}

TEST(TokenFile, ErrorsSayWhatIsWrong) {
  const TemporaryDirectory directory;
  const std::string good = sample();
  const auto message = [](const std::string& bytes, const char* text) {
    EXPECT_THAT([&] { open_bytes(bytes); },
                ThrowsMessage<Error>(::testing::AllOf(HasSubstr("a.tok"), HasSubstr(text))));
  };
  EXPECT_THAT([&] { TokenFile(directory / "none"); }, ThrowsMessage<Error>(HasSubstr("No such file or directory")));
  message("", "is empty");
  message("plain text, longer than the magic", "is not a token file");
  message(good.substr(0, 100), "is truncated: it has 100 bytes, its header alone takes 128");
  message(good.substr(0, 134), "is truncated: its header announces 4 tokens of 2 bytes, 6 bytes follow");
  message(good + "xx", "is too long");
  std::string bytes = good;
  poke(bytes, 8, std::uint32_t{2});
  message(bytes, "has token-file version 2, this program reads version 1");
  bytes = good;
  bytes[130] ^= 1;
  message(bytes, "is damaged: its tokens have checksum");
  bytes = good;
  bytes[33] ^= 1;
  message(bytes, "is damaged: its header has checksum");
}

TEST(TokenFile, RightChecksumsDoNotExcuseWrongContent) {
  const std::string good = sample();
  const auto message = [&](std::size_t offset, auto value, const char* text) {
    std::string bytes = good;
    poke(bytes, offset, value);
    EXPECT_THAT([&] { open_bytes(repaired(bytes)); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  EXPECT_NO_THROW(open_bytes(repaired(good)));
  message(128, std::uint16_t{257}, "token 0 is 257, the vocabulary has 257");
  message(12, std::uint32_t{1}, "stores 1 bytes per token, but a vocabulary of 257 takes 2");
  message(16, std::int64_t{0}, "the vocabulary is 0");
  message(16, INT64_MAX, "the vocabulary is 9223372036854775807");
  message(24, std::int64_t{257}, "the end-of-text id is 257, expected -1..256");
  message(24, std::int64_t{-2}, "the end-of-text id is -2");
  message(32, INT64_MIN, "has -9223372036854775808 tokens");
  message(32, (std::int64_t{1} << 62) + 4, "is truncated");  // 2 bytes each would overflow to the right size
  message(40, std::int64_t{0}, "has 0 documents");
  message(40, std::int64_t{1}, "announces 1 documents, its tokens form 2");
  message(56, '\0', "the tokenizer's name has 0 characters");
  message(61, 'x', "padding is not zero");
  message(119, 'x', "padding is not zero");
}

TEST(TokenFileWriter, RefusesWhatTheFormatDoesNotHold) {
  const TemporaryDirectory directory;
  const auto path = directory / "a";
  EXPECT_THROW(TokenFileWriter(path, {0, "t", -1}), Error);
  EXPECT_THROW(TokenFileWriter(path, {(std::int64_t{1} << 31) + 1, "t", -1}), Error);
  EXPECT_THROW(TokenFileWriter(path, {4, "t", 4}), Error);
  EXPECT_THROW(TokenFileWriter(path, {4, "", -1}), Error);
  EXPECT_THROW(TokenFileWriter(path, {4, std::string(33, 't'), -1}), Error);
  EXPECT_NO_THROW(TokenFileWriter(path, {4, std::string(32, 't'), -1}));
  TokenFileWriter writer(path, {4, "t", -1});
  const std::vector<std::int64_t> wrong = {1, 4};
  EXPECT_THAT([&] { writer.append(wrong); }, ThrowsMessage<Error>(HasSubstr("token id is 4, expected 0..3")));
  EXPECT_EQ(writer.tokens(), 0);
  EXPECT_THAT([&] { writer.commit(); }, ThrowsMessage<Error>(HasSubstr("at least one token")));
  EXPECT_FALSE(path_exists(path));
}

TEST(TokenFileWriter, DoesNotOverwriteUnlessAsked) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "old");
  EXPECT_THAT([&] { TokenFileWriter(directory / "a", kBytes); }, ThrowsMessage<Error>(HasSubstr("exists already")));
  EXPECT_EQ(read_file(directory / "a"), "old");
  TokenFileWriter writer(directory / "a", kBytes, ExistingFile::kReplace);
  writer.append(1);
  writer.commit();
  EXPECT_EQ(TokenFile(directory / "a").tokens(), 1);
}

TEST(TokenFileWriter, FullDiskIsASentenceAndLeavesNothing) {
  const SmallDisk disk(64 << 10);
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a tmpfs takes root";
  }
  EXPECT_THAT([&] { write_tokens(disk.path() / "a", kBytes, std::vector<std::int64_t>(500'000, 1)); },
              ThrowsMessage<Error>(HasSubstr("No space left on device")));
  EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
}

}  // namespace
}  // namespace tessera::data
