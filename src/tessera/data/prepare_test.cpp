#include "tessera/data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/base/testing/temporary_directory.h"
#include "tessera/data/token_file.h"
#include "tessera/data/tokenizer.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using tessera::testing::SmallDisk;
using tessera::testing::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class PrepareTest : public ::testing::Test {
 protected:
  fs::path text(const std::string& name, std::string_view content) {
    fs::create_directories((directory_ / name).parent_path());
    write_file(directory_ / name, content);
    return directory_ / name;
  }

  PrepareReport run(std::vector<fs::path> inputs, double fraction, const std::string& separator = "<|endoftext|>") {
    return prepare({.inputs = std::move(inputs),
                    .output = out(),
                    .validation_fraction = fraction,
                    .separator = separator,
                    .overwrite = true});
  }

  fs::path out() const { return directory_ / "out"; }

  /// A token file's text with '$' for each end of text.
  static std::string shown(const fs::path& path) {
    const TokenFile file(path);
    EXPECT_EQ(file.vocabulary(), (Vocabulary{257, "byte", 256}));
    std::string text;
    for (std::int64_t i = 0; i < file.tokens(); ++i) {
      text.push_back(file.token(i) == 256 ? '$' : static_cast<char>(file.token(i)));
    }
    return text;
  }
  std::string train() const { return shown(out() / "train.tok"); }
  std::string validation() const { return shown(out() / "validation.tok"); }

  TemporaryDirectory directory_;
};

TEST_F(PrepareTest, OneDocumentIsCutInside) {
  const PrepareReport report = run({text("a.txt", "0123456789")}, 0.3);
  EXPECT_EQ(train(), "0123456$");
  EXPECT_EQ(validation(), "789$");
  EXPECT_EQ(report.files, 1);
  EXPECT_EQ(report.train.path, out() / "train.tok");
  EXPECT_EQ(report.train.text_bytes, 7);
  EXPECT_EQ(report.train.tokens, 8);
  EXPECT_EQ(report.train.documents, 1);
  EXPECT_EQ(report.validation.text_bytes, 3);
  EXPECT_EQ(report.validation.tokens, 4);
  EXPECT_EQ(report.validation.documents, 1);
}

TEST_F(PrepareTest, SeparatorLinesEndDocuments) {
  const fs::path a =
      text("a.txt", "one\n<|endoftext|>\ntwo\r\n<|endoftext|>\r\n<|endoftext|>\n <|endoftext|>\nthree\n<|endoftext|>");
  const PrepareReport report = run({a}, 0);
  EXPECT_EQ(train(), "one\n$two\r\n$ <|endoftext|>\nthree\n$");
  EXPECT_EQ(report.train.documents, 3);
  EXPECT_TRUE(report.validation.path.empty());
  run({text("b.txt", "a\n--\nb\n")}, 0, "--");
  EXPECT_EQ(train(), "a\n$b\n$");
  run({text("c.txt", "a\n<|endoftext|>\n\nb")}, 0, "");
  EXPECT_EQ(train(), "a\n<|endoftext|>\n\nb$");
}

TEST_F(PrepareTest, ACutNearADocumentsStartMovesThere) {
  // 20 bytes, fraction 0.2: a tail of 4, wanted cut at 16, moved by at most 2.
  const auto cut = [&](std::size_t first_document) {
    const std::string all = "abcdefghijklmnopqrst";
    // The separator lines are no text; the line break that ends each first part is.
    run({text("a.txt", all.substr(0, first_document - 1) + "\n<|endoftext|>\n" + all.substr(first_document))}, 0.2);
    return TokenFile(out() / "validation.tok").tokens() - TokenFile(out() / "validation.tok").documents();
  };
  EXPECT_EQ(cut(13), 4);  // 3 away: too far, cut inside
  EXPECT_EQ(cut(14), 6);
  EXPECT_EQ(cut(16), 4);
  EXPECT_EQ(cut(18), 2);
  EXPECT_EQ(cut(19), 4);
}

TEST_F(PrepareTest, TheNearestOfSeveralStartsIsTaken) {
  const fs::path a =
      text("a.txt", "0123456789abc\n<|endoftext|>\ne\n<|endoftext|>\nghi\n");  // starts at 14 and 16 of 20
  run({a}, 0.3);                                                               // wanted 14
  EXPECT_EQ(train(), "0123456789abc\n$");
  EXPECT_EQ(validation(), "e\n$ghi\n$");
  run({a}, 0.2);  // wanted 16
  EXPECT_EQ(validation(), "ghi\n$");
}

TEST_F(PrepareTest, ACharacterIsNotCut) {
  run({text("a.txt", "abcd\u20ac\u20ac")}, 0.5);  // wanted 5, inside the first euro sign
  EXPECT_EQ(train(), "abcd\u20ac$");
  EXPECT_EQ(validation(), "\u20ac$");
}

TEST_F(PrepareTest, EverySetGivesItsTail) {
  const fs::path b = text("b.txt", "BBBBbbbb"), directory = directory_ / "d";
  text("d/2.txt", "33334444");
  text("d/1/x.txt", "11112222");
  text("d/ignored.md", "no");
  text("d/empty.txt", "");
  const PrepareReport report = run({b, directory}, 0.25);
  EXPECT_EQ(report.files, 4);
  EXPECT_EQ(train(), "BBBBbb$11112222$3333$");
  EXPECT_EQ(validation(), "bb$4444$");
}

TEST_F(PrepareTest, AllBytesAreKept) {
  std::string all;
  for (int i = 0; i < 256; ++i) {
    all.push_back(static_cast<char>(i));
  }
  std::string big;
  for (int i = 0; i < 1000; ++i) {
    big += all;
  }
  run({text("a.txt", big)}, 0.1);
  const TokenFile train_file(out() / "train.tok"), validation_file(out() / "validation.tok");
  EXPECT_EQ(train_file.tokens() + validation_file.tokens(), 256'002);
  for (std::int64_t i = 0; i < 256'000; ++i) {
    const std::int64_t cut = train_file.tokens() - 1;
    ASSERT_EQ(i < cut ? train_file.token(i) : validation_file.token(i - cut), i % 256);
  }
}

TEST_F(PrepareTest, ExistingOutputsStayUnlessOverwritten) {
  const fs::path a = text("a.txt", "0123456789");
  PrepareOptions options{.inputs = {a}, .output = out()};
  for (const char* name : {"train.tok", "validation.tok"}) {
    fs::remove_all(out());
    text(std::string("out/") + name, "old");
    EXPECT_THAT([&] { prepare(options); }, ThrowsMessage<Error>(HasSubstr(std::string(name) + " exists already")));
    EXPECT_EQ(read_file(out() / name), "old");
    EXPECT_EQ(std::distance(fs::directory_iterator(out()), {}), 1);
  }
  options.overwrite = true;
  prepare(options);
  EXPECT_EQ(train(), "012345678$");
  EXPECT_EQ(validation(), "9$");
  options.validation_fraction = 0;
  prepare(options);
  EXPECT_FALSE(path_exists(out() / "validation.tok"));
}

TEST_F(PrepareTest, BadInputIsASentenceAndWritesNothing) {
  const fs::path a = text("a.txt", "0123456789"), empty = text("empty.txt", "");
  fs::create_directory(directory_ / "hollow");
  const auto message = [&](PrepareOptions options, const char* expected) {
    options.output = options.output.empty() ? out() : options.output;
    EXPECT_THAT([&] { prepare(options); }, ThrowsMessage<Error>(HasSubstr(expected)));
    EXPECT_TRUE(!path_exists(out()) || fs::is_empty(out()));
  };
  message({.inputs = {}}, "no input was named");
  message({.inputs = {directory_ / "none"}}, "none does not exist");
  message({.inputs = {directory_ / "hollow"}}, "hollow holds no .txt file");
  message({.inputs = {a, empty}}, "empty.txt holds no text");
  message({.inputs = {text("separators.txt", "<|endoftext|>\n<|endoftext|>\n")}}, "separators.txt holds no text");
  message({.inputs = {a, directory_.path() / "." / "a.txt"}}, "is among the inputs twice");
  message({.inputs = {a}, .validation_fraction = 1}, "the validation fraction is 1");
  message({.inputs = {a}, .validation_fraction = -0.1}, "the validation fraction is -0.1");
  message({.inputs = {a}, .validation_fraction = std::numeric_limits<double>::quiet_NaN()}, "fraction is nan");
  message({.inputs = {a}, .validation_fraction = 0.01}, "validation.tok would have no text; raise");
  message({.inputs = {a}, .validation_fraction = 0.99}, "train.tok would have no text; lower");
  message({.inputs = {a}, .separator = "a\nb"}, "separator contains a line break");
  message({.inputs = {a}, .output = a / "below"}, "a.txt/below");
  EXPECT_THAT([] { prepare({}); }, ThrowsMessage<Error>(HasSubstr("no output directory")));
}

TEST_F(PrepareTest, FullDiskLeavesNoHalfFile) {
  const SmallDisk disk(64 << 10);
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a tmpfs takes root";
  }
  // Fits alone for training; validation does not fit beside it. And not even the training part fits.
  for (const std::size_t size : {std::size_t{34'000}, std::size_t{1'000'000}}) {
    const PrepareOptions options{
        .inputs = {text("a.txt", std::string(size, 'x'))}, .output = disk.path() / "out", .validation_fraction = 0.3};
    EXPECT_THAT([&] { prepare(options); }, ThrowsMessage<Error>(HasSubstr("No space left on device")));
    EXPECT_TRUE(fs::is_empty(disk.path() / "out"));
  }
}

}  // namespace
}  // namespace tessera::data
