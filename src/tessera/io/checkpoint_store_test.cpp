#include "tessera/io/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "tessera/base/check.h"
#include "tessera/base/philox.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;
using tessera::testing::SmallDisk;
using tessera::testing::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// A checkpoint whose content follows from its step.
void save(CheckpointStore& store, std::int64_t step, std::size_t size = 100) {
  std::vector<std::int64_t> weights(size);
  std::iota(weights.begin(), weights.end(), step);
  const TensorView tensor{"weights", DType::kI64, {static_cast<std::int64_t>(size)}, std::as_bytes(std::span(weights))};
  CheckpointWriter writer = store.begin(step);
  writer.add_safetensors("model.safetensors", {&tensor, 1}, {{"step", std::to_string(step)}});
  writer.add_json("state.json", {{"position", step * 10}});
  writer.add_text("config.toml", "steps = 1\n");
  writer.commit({{"loss", 0.5}});
}

void expect_content(const CheckpointReader& reader, std::int64_t step) {
  EXPECT_EQ(reader.step(), step);
  EXPECT_EQ(reader.user(), (nlohmann::json{{"loss", 0.5}}));
  EXPECT_THAT(reader.files(), ElementsAre("config.toml", "model.safetensors", "state.json"));
  EXPECT_EQ(reader.json("state.json"), (nlohmann::json{{"position", step * 10}}));
  EXPECT_EQ(reader.text("config.toml"), "steps = 1\n");
  const SafetensorsFile model = reader.safetensors("model.safetensors");
  EXPECT_EQ(model.metadata().at("step"), std::to_string(step));
  const auto data = model.tensor("weights").data;
  for (std::size_t i = 0; i < data.size() / 8; ++i) {
    std::int64_t value;
    std::memcpy(&value, data.data() + i * 8, 8);
    ASSERT_EQ(value, step + static_cast<std::int64_t>(i));
  }
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Change one byte in place.
void poke(const fs::path& path, std::size_t offset, char value) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(value);
}

TEST(CheckpointStore, SavesAndOpens) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory / "run" / "checkpoints");
  EXPECT_THAT(store.steps(), IsEmpty());
  EXPECT_FALSE(store.latest());
  EXPECT_FALSE(store.open_latest_valid());
  for (const std::int64_t step : {0, 9, 10, 100}) {
    save(store, step);
  }
  EXPECT_THAT(store.steps(), ElementsAre(0, 9, 10, 100));
  EXPECT_EQ(store.latest(), 100);
  expect_content(store.open(9), 9);
  expect_content(*store.open_latest_valid(), 100);
  EXPECT_THAT(names_in(store.path(9)), ElementsAre("config.toml", "manifest.json", "model.safetensors", "state.json"));
  EXPECT_THAT([&] { store.open(11); },
              ThrowsMessage<Error>(AllOf(HasSubstr("there is no checkpoint"), HasSubstr("step-11"))));
  EXPECT_THAT([&] { store.open(9).text("none"); }, ThrowsMessage<Error>(HasSubstr("has no file none")));
}

TEST(CheckpointStore, OtherNamesAreNoCheckpoints) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  for (const char* name :
       {"step-", "step-01", "step--1", "step-+1", "step-1x", "step-9223372036854775808", "best", "xstep-1"}) {
    fs::create_directory(directory / name);
  }
  write_file(directory / "step-5", "a file");
  EXPECT_THAT(store.steps(), IsEmpty());
  EXPECT_FALSE(store.open_latest_valid());
}

TEST(CheckpointStore, UncommittedLeavesNothing) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  {
    CheckpointWriter writer = store.begin(1);
    writer.add_text("a", "x");
    EXPECT_EQ(names_in(directory.path()).size(), 1u);
    EXPECT_THAT(store.steps(), IsEmpty());
    const CheckpointWriter moved = std::move(writer);
  }
  EXPECT_THAT(names_in(directory.path()), IsEmpty());
}

TEST(CheckpointStore, WriterRefusesMisuse) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  EXPECT_THAT([&] { store.begin(-1); }, ThrowsMessage<Error>(HasSubstr("step is -1")));
  EXPECT_THAT([&] { CheckpointStore(directory.path(), -1); }, ThrowsMessage<Error>(HasSubstr("to keep is -1")));
  CheckpointWriter writer = store.begin(1);
  writer.add_text("a", "x");
  EXPECT_THAT([&] { writer.add_text("a", "y"); }, ThrowsMessage<Error>(HasSubstr("has a file a already")));
  EXPECT_THAT([&] { writer.add_text("../a", "y"); }, ThrowsMessage<Error>(HasSubstr("cannot name a file")));
  EXPECT_THAT([&] { writer.add_text("manifest.json", "y"); }, ThrowsMessage<Error>(HasSubstr("cannot name a file")));
  EXPECT_THAT([&] { writer.add_json("b", std::nan("")); }, ThrowsMessage<Error>(HasSubstr("not finite")));
  EXPECT_THAT([&] { store.begin(1); }, ThrowsMessage<Error>(HasSubstr("File exists")));  // one at a time
  writer.commit();
  EXPECT_THAT([&] { writer.commit(); }, ThrowsMessage<Error>(HasSubstr("is committed already")));
  EXPECT_THAT([&] { writer.add_text("c", "x"); }, ThrowsMessage<Error>(HasSubstr("is committed already")));
  EXPECT_EQ(store.open(1).text("a"), "x");
}

TEST(CheckpointStore, ReplacesTheSameStep) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  save(store, 3, 10);
  save(store, 3, 20);
  EXPECT_EQ(store.open(3).safetensors("model.safetensors").tensor("weights").shape[0], 20);
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-3"));
}

TEST(CheckpointStore, KeepsTheNewest) {
  const TemporaryDirectory directory;
  CheckpointStore all(directory.path()), two(directory.path(), 2), one(directory.path(), 1);
  for (const std::int64_t step : {1, 2, 3, 4}) {
    save(all, step);
  }
  EXPECT_THAT(all.steps(), ElementsAre(1, 2, 3, 4));
  {
    CheckpointWriter writer = two.begin(5);
    EXPECT_THAT(two.steps(), ElementsAre(1, 2, 3, 4));  // nothing goes before the new one is there
  }
  EXPECT_THAT(two.steps(), ElementsAre(1, 2, 3, 4));
  save(two, 5);
  EXPECT_THAT(two.steps(), ElementsAre(4, 5));
  save(one, 3);  // older than what is there: the one just written stays
  EXPECT_THAT(one.steps(), ElementsAre(3));
  EXPECT_THAT(names_in(directory.path()), ElementsAre("step-3"));
}

TEST(CheckpointStore, DamageIsNamed) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  save(store, 1, 4);
  const fs::path path = store.path(1);
  const auto message = [&](const char* file, const char* text) {
    EXPECT_THAT([&] { store.open(1); }, ThrowsMessage<Error>(AllOf(HasSubstr(file), HasSubstr(text))));
  };
  const std::string good = read_file(path / "model.safetensors");
  write_file(path / "model.safetensors", good.substr(1));
  message("model.safetensors", "the manifest says");
  fs::remove(path / "model.safetensors");
  message("model.safetensors", "is missing");
  fs::create_directory(path / "model.safetensors");
  message("model.safetensors", "is not a regular file");
  fs::remove(path / "model.safetensors");
  write_file(path / "model.safetensors", good);
  write_file(path / "notes.txt", "not ours");
  EXPECT_NO_THROW(store.open(1));
  fs::remove(path / "manifest.json");
  message("step-1", "is no complete checkpoint: it has no manifest.json");
}

TEST(CheckpointStore, EveryFlippedBitAndTruncationIsAnError) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  save(store, 1, 2);
  for (const std::string& name : names_in(store.path(1))) {
    const fs::path path = store.path(1) / name;
    const std::string good = read_file(path);
    for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
      poke(path, bit / 8, static_cast<char>(good[bit / 8] ^ (1 << bit % 8)));
      ASSERT_THROW(store.open(1), Error) << name << " bit " << bit;
      poke(path, bit / 8, good[bit / 8]);
    }
    ASSERT_NO_THROW(store.open(1));
    for (std::size_t length = good.size(); length-- > 0;) {
      fs::resize_file(path, length);
      ASSERT_THROW(store.open(1), Error) << name << " cut to " << length;
    }
    write_file(path, good);
    ASSERT_NO_THROW(store.open(1));
  }
}

TEST(CheckpointStore, LatestValidPassesOverDamage) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  for (const std::int64_t step : {1, 2, 3}) {
    save(store, step);
  }
  poke(store.path(3) / "model.safetensors", 600, 'x');
  fs::remove(store.path(2) / "state.json");
  ::testing::internal::CaptureStderr();
  expect_content(*store.open_latest_valid(), 1);
  const std::string warnings = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(warnings, AllOf(HasSubstr("checkpoint of step 3"), HasSubstr("step-3/model.safetensors is damaged")));
  EXPECT_THAT(warnings, HasSubstr("step-2/state.json is missing"));
  poke(store.path(1) / "manifest.json", 10, 'x');
  EXPECT_FALSE(store.open_latest_valid());
  fs::rename(store.path(1), store.path(7));
  EXPECT_FALSE(store.open_latest_valid());
}

TEST(CheckpointStore, AManifestOfAnotherStepIsDamage) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  save(store, 1);
  fs::rename(store.path(1), store.path(7));
  EXPECT_THAT([&] { store.open(7); }, ThrowsMessage<Error>(HasSubstr("its manifest is of step 1")));
  expect_content(open_checkpoint(store.path(7)), 1);
}

TEST(CheckpointStore, RemovesWhatDeadProcessesLeft) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory.path());
  fs::create_directories(directory / ".tmp-step-4-1");                            // a living process' id
  fs::create_directories(directory / fmt::format(".tmp-step-5-{}", ::getpid()));  // our own, from another life
  CheckpointWriter living = store.begin(6);
  EXPECT_EQ(names_in(directory.path()).size(), 1u);
  save(store, 7);
  EXPECT_EQ(names_in(directory.path()).size(), 2u);  // the living writer's folder is still there
  living.commit();
  EXPECT_THAT(store.steps(), ElementsAre(6, 7));
}

TEST(CheckpointStore, FullDiskIsASentenceAndKeepsTheOld) {
  const SmallDisk disk(256 << 10);
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a tmpfs takes root";
  }
  CheckpointStore store(disk.path() / "checkpoints", 1);
  save(store, 1);
  EXPECT_THAT([&] { save(store, 2, 100'000); }, ThrowsMessage<Error>(HasSubstr("No space left on device")));
  EXPECT_THAT(names_in(store.root()), ElementsAre("step-1"));
  expect_content(store.open(1), 1);
  save(store, 3);
  EXPECT_THAT(names_in(store.root()), ElementsAre("step-3"));
}

/// Write checkpoints, the same few steps over and over, until killed.
[[noreturn]] void save_forever(const fs::path& root) {
  CheckpointStore store(root, 3);
  for (std::int64_t i = 0;; ++i) {
    save(store, i % 5, 4000);
  }
}

// Thirty kills at moments spread over a few checkpoints' time; whatever stands under a step's name is whole.
TEST(CheckpointStore, SurvivesKills) {
  const TemporaryDirectory directory;
  CheckpointStore store(directory / "checkpoints", 3);
  save(store, 0, 4000);
  const auto started = std::chrono::steady_clock::now();
  save(store, 1, 4000);
  const auto one_save =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - started);
  int seen = 0;
  for (std::uint32_t kill = 0; kill < 30; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      save_forever(store.root());
    }
    const float saves = 8 * uniform_float(philox(philox_key(1, "kill", "delay"), {kill, 0, 0, 0})[0]);
    std::this_thread::sleep_for(std::chrono::microseconds(static_cast<std::int64_t>(saves * one_save.count())));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    const std::vector<std::int64_t> steps = store.steps();
    ASSERT_FALSE(steps.empty());
    for (const std::int64_t step : steps) {
      ASSERT_NO_THROW(expect_content(store.open(step), step)) << "kill " << kill << ", step " << step;
      ++seen;
    }
  }
  EXPECT_GE(seen, 30);
  save(store, 9, 4000);  // removes what the killed left
  for (const std::string& name : names_in(store.root())) {
    EXPECT_TRUE(name.starts_with("step-")) << name;
  }
}

}  // namespace
}  // namespace tessera::io
