#include "tessera/train/run_folder.h"

#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/base/testing/temporary_directory.h"
#include "tessera/train/signals.h"

#include <csignal>

namespace tessera::train {
namespace {

using tessera::testing::TemporaryDirectory;

TEST(RunFolder, HoldsARunWhenAnyPartIsThere) {
  const TemporaryDirectory directory;
  const RunFolder folder(directory / "run");
  EXPECT_FALSE(folder.holds_run());
  std::filesystem::create_directories(folder.root());
  EXPECT_FALSE(folder.holds_run());
  write_file(folder.root() / "notes.txt", "mine");
  EXPECT_FALSE(folder.holds_run());
  for (const auto& part : {folder.config(), folder.metrics(), folder.checkpoints(), folder.summary()}) {
    write_file(part, "x");
    EXPECT_TRUE(folder.holds_run()) << part;
    std::filesystem::remove(part);
  }
}

TEST(RunFolder, OneWriterAtATime) {
  const TemporaryDirectory directory;
  {
    RunFolder first(directory / "a/b"), second(directory / "a/b");
    first.acquire();
    EXPECT_THROW(second.acquire(), Error);
  }
  RunFolder third(directory / "a/b");
  EXPECT_NO_THROW(third.acquire());
}

TEST(RunFolder, FileInTheWayIsAnError) {
  const TemporaryDirectory directory;
  write_file(directory / "run", "no folder");
  RunFolder folder(directory / "run");
  EXPECT_THROW(folder.acquire(), Error);
  EXPECT_EQ(read_file(directory / "run"), "no folder");
}

TEST(StopSignals, FirstSetsTheFlag) {
  {
    const StopSignals signals;
    EXPECT_EQ(signals.received(), 0);
    ::raise(SIGTERM);
    EXPECT_EQ(signals.received(), SIGTERM);
  }
  const StopSignals again;
  EXPECT_EQ(again.received(), 0);
}

TEST(StopSignalsDeathTest, SecondEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        ::raise(SIGINT);
        ::raise(SIGINT);
      },
      ::testing::ExitedWithCode(130), "");
}

}  // namespace
}  // namespace tessera::train
