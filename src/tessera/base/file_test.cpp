#include "tessera/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using testing::SmallDisk;
using testing::TemporaryDirectory;
using ::testing::ThrowsMessage;

std::size_t entries(const std::filesystem::path& directory) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

TEST(AtomicFile, NothingHasTheNameBeforeCommit) {
  const TemporaryDirectory directory;
  AtomicFile file(directory / "a");
  file.write("hello ");
  file.write("world");
  file.write_at(0, std::as_bytes(std::span("J", 1)));
  EXPECT_EQ(file.size(), 11u);
  EXPECT_FALSE(path_exists(directory / "a"));
  file.seal();
  EXPECT_FALSE(path_exists(directory / "a"));
  file.commit();
  EXPECT_EQ(read_file(directory / "a"), "Jello world");
  EXPECT_EQ(entries(directory.path()), 1u);
}

TEST(AtomicFile, UncommittedLeavesNothingAndKeepsTheOld) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "old");
  {
    AtomicFile file(directory / "a");
    file.write("new");
  }
  EXPECT_EQ(read_file(directory / "a"), "old");
  EXPECT_EQ(entries(directory.path()), 1u);
  write_file(directory / "a", "new");
  EXPECT_EQ(read_file(directory / "a"), "new");
}

TEST(AtomicFile, TwoOfOneNameDoNotMix) {
  const TemporaryDirectory directory;
  AtomicFile first(directory / "a"), second(directory / "a");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(directory / "a"), "first");
}

TEST(AtomicFile, RefusesAnExistingFileAtBothEnds) {
  const TemporaryDirectory directory;
  AtomicFile late(directory / "a", ExistingFile::kRefuse);
  write_file(directory / "a", "old");
  EXPECT_THAT([&] { late.commit(); }, ThrowsMessage<Error>(HasSubstr("a exists already")));
  EXPECT_THAT([&] { AtomicFile(directory / "a", ExistingFile::kRefuse); },
              ThrowsMessage<Error>(HasSubstr("a exists already")));
  EXPECT_EQ(read_file(directory / "a"), "old");
}

TEST(AtomicFile, ErrorsNameThePathAndTheCause) {
  const TemporaryDirectory directory;
  EXPECT_THAT([&] { write_file(directory / "none" / "a", "x"); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr("none/a"), HasSubstr("No such file or directory"))));
  std::filesystem::create_directory(directory / "b");
  EXPECT_THAT([&] { write_file(directory / "b", "x"); }, ThrowsMessage<Error>(HasSubstr("cannot put in place")));
  EXPECT_EQ(entries(directory.path()), 1u);
}

TEST(AtomicFile, FullDiskIsASentenceAndLeavesTheOldFile) {
  const SmallDisk disk(64 << 10);
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a tmpfs takes root";
  }
  write_file(disk.path() / "a", "old");
  EXPECT_THAT([&] { write_file(disk.path() / "a", std::string(200'000, 'x')); },
              ThrowsMessage<Error>(HasSubstr("No space left on device")));
  EXPECT_EQ(read_file(disk.path() / "a"), "old");
  EXPECT_EQ(entries(disk.path()), 1u);
}

TEST(MappedFile, ReadsMovesAndRefuses) {
  const TemporaryDirectory directory;
  write_file(directory / "a", "text");
  MappedFile file(directory / "a");
  const MappedFile moved = std::move(file);
  EXPECT_EQ(moved.bytes().size(), 4u);
  EXPECT_EQ(std::to_integer<char>(moved.bytes()[0]), 't');
  write_file(directory / "empty", "");
  EXPECT_TRUE(MappedFile(directory / "empty").bytes().empty());
  EXPECT_EQ(read_file(directory / "empty"), "");
  EXPECT_THAT([&] { MappedFile(directory / "none"); },
              ThrowsMessage<Error>(::testing::AllOf(HasSubstr("none"), HasSubstr("No such file or directory"))));
  EXPECT_THAT([&] { MappedFile{directory.path()}; }, ThrowsMessage<Error>(HasSubstr("is not a regular file")));
}

TEST(Checksum, PiecesGiveTheWhole) {
  // XXH3-64 of no bytes is the published 2d06800538d394c2.
  EXPECT_EQ(checksum_text(xxh3({})), "2d06800538d394c2");
  std::vector<std::byte> bytes(1000);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7);
  }
  for (const std::size_t cut : {0, 1, 255, 256, 257, 999, 1000}) {
    Checksum checksum;
    checksum.update(std::span(bytes).first(cut));
    checksum.update(std::span(bytes).subspan(cut));
    EXPECT_EQ(checksum.value(), xxh3(bytes)) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace tessera
