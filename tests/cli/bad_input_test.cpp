// Wrong and damaged input: each is one sentence on stderr and exit code 2, and nothing on the disk changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>

#include "program.h"
#include "tessera/base/file.h"
#include "tessera/data/token_file.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;

// A private copy of tokens, run and checkpoint that a case may damage.
struct Copy {
  ScratchFolder folder;
  fs::path tokens = folder / "train.tok", run = folder / "run", out = folder / "new",
           checkpoint = run / "checkpoints" / "step-4", model = checkpoint / "model.safetensors",
           manifest = checkpoint / "manifest.json", config = folder / "run.toml";
  Copy() {
    fs::copy_file(fixture().tokens, tokens);
    fs::copy(fixture().run, run, fs::copy_options::recursive);
    std::ofstream(config) << "steps = 4\n[model]\nwidth = 32\nheads = 2\n";
  }
};

void expect_refusal(const Arguments& arguments, const fs::path& root, const std::string& sentence) {
  const auto before = hash_tree(root);
  const auto result = run_program(arguments);
  std::string command;
  for (const std::string& argument : arguments) command += argument + " ";
  SCOPED_TRACE(command + "\n" + result.err);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("tessera: error: "));
  EXPECT_THAT(result.err, HasSubstr(sentence));
  const std::size_t last = result.err.rfind("tessera: error: ");
  if (last != std::string::npos) {
    EXPECT_EQ(std::count(result.err.begin() + static_cast<std::ptrdiff_t>(last), result.err.end(), '\n'), 1);
  }
  EXPECT_EQ(hash_tree(root), before);
}

void overwrite(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }
void truncate_half(const fs::path& path) { fs::resize_file(path, fs::file_size(path) / 2); }

struct Damage {
  std::string name;
  std::function<void(const fs::path&)> apply;
};

const Damage kFileDamages[] = {
    {"missing", [](const fs::path& path) { fs::remove(path); }},
    {"empty", [](const fs::path& path) { fs::resize_file(path, 0); }},
    {"truncated", truncate_half},
    {"one byte short", [](const fs::path& path) { fs::resize_file(path, fs::file_size(path) - 1); }},
    {"one byte long", [](const fs::path& path) { std::ofstream(path, std::ios::app) << 'x'; }},
    {"first bit flipped", [](const fs::path& path) { flip_bit(path, 0); }},
    {"bit 9 of the header flipped", [](const fs::path& path) { flip_bit(path, 9, 4); }},
    {"middle bit flipped", [](const fs::path& path) { flip_bit(path, fs::file_size(path) / 2, 3); }},
    {"last bit flipped", [](const fs::path& path) { flip_bit(path, fs::file_size(path) - 1, 7); }},
};

TEST(BadInputTest, DamagedTokenFile) {
  for (const Damage& damage : kFileDamages) {
    const Copy copy;
    SCOPED_TRACE(damage.name);
    damage.apply(copy.tokens);
    expect_refusal(train_arguments(copy.tokens, copy.out), copy.folder.path(), copy.tokens.string());
    expect_refusal({"eval", copy.run.string(), "--data", copy.tokens.string()}, copy.folder.path(),
                   copy.tokens.string());
    expect_refusal({"inspect", copy.tokens.string()}, copy.folder.path(), copy.tokens.string());
  }
}

TEST(BadInputTest, DamagedCheckpoint) {
  const std::string files[] = {"model.safetensors", "manifest.json"};
  for (const std::string& file : files)
    for (const Damage& damage : kFileDamages) {
      const Copy copy;
      SCOPED_TRACE(file + " " + damage.name);
      damage.apply(copy.checkpoint / file);
      expect_refusal({"eval", copy.checkpoint.string(), "--data", copy.tokens.string()}, copy.folder.path(),
                     copy.checkpoint.string());
      expect_refusal({"inspect", copy.checkpoint.string()}, copy.folder.path(), copy.checkpoint.string());
    }
}

TEST(BadInputTest, DamagedCheckpointToResumeFromOrToGenerateWith) {
  const Copy copy;
  flip_bit(copy.checkpoint / "optimizer.safetensors", fs::file_size(copy.checkpoint / "optimizer.safetensors") - 5);
  Arguments resume = train_arguments(copy.tokens, copy.run);
  resume.insert(resume.end(), {"--steps", "8", "--resume", copy.checkpoint.string()});
  resume.erase(resume.begin() + 5, resume.begin() + 7);  // the --steps of the fixture
  expect_refusal(resume, copy.folder.path(), "optimizer.safetensors");
  expect_refusal({"generate", copy.checkpoint.string()}, copy.folder.path(), "optimizer.safetensors");
}

TEST(BadInputTest, NoCheckpointLeft) {
  const Copy copy;
  for (const auto& entry : fs::directory_iterator(copy.run / "checkpoints"))
    truncate_half(entry.path() / "model.safetensors");
  expect_refusal({"generate", copy.run.string()}, copy.folder.path(), copy.run.string());
  expect_refusal({"eval", (copy.folder / "nowhere").string()}, copy.folder.path(), "nowhere");
  expect_refusal({"inspect", (copy.folder / "nowhere").string()}, copy.folder.path(), "nowhere");
}

TEST(BadInputTest, DamagedConfig) {
  const Damage damages[] = {
      {"run.toml: ", [](const fs::path& path) { fs::remove(path); }},
      {"data.train is empty", [](const fs::path& path) { fs::resize_file(path, 0); }},
      {"run.toml:2: ", [](const fs::path& path) { fs::resize_file(path, 14); }},  // within "[model]"
      {"run.toml:1: unknown key 'rteps' (did you mean 'steps'?)", [](const fs::path& path) { flip_bit(path, 0); }},
      {"run.toml:1: ",
       [](const fs::path& path) {
         overwrite(path, std::string("\x7f"
                                     "ELF\x02\x01",
                                     6));
       }},
      {"run.toml:2: model.width is \"wide\", expected a whole number",
       [](const fs::path& path) { overwrite(path, "[model]\nwidth = \"wide\"\n"); }},
      {"run.toml:1: steps is 1.5, expected a whole number",
       [](const fs::path& path) { overwrite(path, "steps = 1.5\n"); }},
      {"run.toml:1: steps is '-3', expected a whole number",
       [](const fs::path& path) { overwrite(path, "steps = -3\n"); }},
      {"run.toml:1: recompute is \"yes\", expected true or false",
       [](const fs::path& path) { overwrite(path, "recompute = \"yes\"\n"); }},
      {"run.toml:1: data.train is [1], expected an array of texts",
       [](const fs::path& path) { overwrite(path, "data.train = [1]\n"); }},
      {"run.toml:3: unknown key 'model.widht' (did you mean 'model.width'?)",
       [](const fs::path& path) { overwrite(path, "\n[model]\nwidht = 32\n"); }},
      {"run.toml:2: 'steps' stands in line 1 already",
       [](const fs::path& path) { overwrite(path, "steps = 1\nsteps = 2\n"); }},
  };
  for (const Damage& damage : damages) {
    const Copy copy;
    SCOPED_TRACE(damage.name);
    damage.apply(copy.config);
    const std::string sentence = damage.name == "run.toml: " ? "run.toml" : damage.name;
    expect_refusal({"train", "--config", copy.config.string(), "--out", copy.out.string()}, copy.folder.path(),
                   sentence);
  }
}

TEST(BadInputTest, ConfigurationThatCannotRun) {
  const Copy copy;
  const auto with = [&](Arguments more) {
    Arguments arguments = {"train", "--out", copy.out.string(), "--data.train", copy.tokens.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_refusal(with({"--model.width", "30", "--model.heads", "4"}), copy.folder.path(), "model.width is 30");
  expect_refusal(with({"--model.width", "40", "--model.heads", "4"}), copy.folder.path(), "40");
  expect_refusal(with({"--keep-last", "9"}), copy.folder.path(), "keep-last 9");
  expect_refusal(with({"--hadamard-block", "24"}), copy.folder.path(), "24");
  expect_refusal(with({"--model.context", "1000000"}), copy.folder.path(), copy.tokens.string());
  expect_refusal({"train", "--out", copy.out.string()}, copy.folder.path(), "data.train is empty");
  expect_refusal({"train", "--data.train", copy.tokens.string()}, copy.folder.path(), "out is empty");
}

TEST(BadInputTest, VocabularyMismatch) {
  const Copy copy;
  const fs::path other = copy.folder / "other.tok";
  {
    data::TokenFileWriter writer(other, {.size = 300, .tokenizer = "words", .end_of_text = 299});
    for (std::int64_t i = 0; i < 500; ++i) writer.append(i % 300);
    writer.commit();
  }
  expect_refusal({"eval", copy.run.string(), "--data", other.string()}, copy.folder.path(), "300");
  Arguments validation = train_arguments(copy.tokens, copy.out);
  validation.insert(validation.end(), {"--data.validation", other.string()});
  expect_refusal(validation, copy.folder.path(), "300");
  Arguments mixture = train_arguments(copy.tokens, copy.out);
  mixture.insert(mixture.begin() + 3, other.string());  // a second file of --data.train
  expect_refusal(mixture, copy.folder.path(), "300");
}

TEST(BadInputTest, NothingIsOverwritten) {
  const Copy copy;
  expect_refusal(train_arguments(copy.tokens, copy.run), copy.folder.path(), copy.run.string());
  expect_refusal({"prepare", fixture().text.string(), "--out", copy.folder.path().string()}, copy.folder.path(),
                 copy.tokens.string());
}

TEST(BadInputTest, PrepareWithoutText) {
  const Copy copy;
  const fs::path empty = copy.folder / "empty.txt", folder = copy.folder / "no-texts";
  overwrite(empty, "");
  fs::create_directory(folder);
  const std::string out = (copy.folder / "data").string();
  fs::create_directory(out);
  expect_refusal({"prepare", empty.string(), "--out", out}, copy.folder.path(), "");
  expect_refusal({"prepare", folder.string(), "--out", out}, copy.folder.path(), folder.string());
  expect_refusal({"prepare", (copy.folder / "nowhere.txt").string(), "--out", out}, copy.folder.path(), "nowhere.txt");
  expect_refusal({"prepare", fixture().text.string(), "--out", out, "--validation-fraction", "1.5"}, copy.folder.path(),
                 "--validation-fraction is '1.5'");
}

TEST(BadInputTest, FullDisk) {
  const ScratchFolder folder;
  const fs::path disk = folder / "disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "no right to mount a small tmpfs: " << std::strerror(errno);
  struct Unmount {
    fs::path path;
    ~Unmount() { umount2(path.c_str(), MNT_DETACH); }
  } const unmount{disk};

  overwrite(disk / "kept.txt", "kept");
  const fs::path text = folder / "large.txt";
  overwrite(text, std::string(1 << 20, 'a'));
  for (const Arguments& arguments :
       {Arguments{"prepare", text.string(), "--out", disk.string()}, train_arguments(fixture().tokens, disk / "run")}) {
    const auto result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2) << arguments[0];
    EXPECT_THAT(result.err, HasSubstr("tessera: error: "));
    EXPECT_THAT(result.err, HasSubstr("No space left on device"));
    EXPECT_THAT(result.err, HasSubstr(disk.string()));
    EXPECT_EQ(read_file(disk / "kept.txt"), "kept");
    EXPECT_FALSE(fs::exists(disk / "train.tok")) << "a token file is complete or absent";
    for (const auto& [name, hash] : hash_tree(disk))
      EXPECT_FALSE(fs::path(name).filename().string().starts_with("step-")) << name << ": complete or absent";
  }
}

}  // namespace
}  // namespace tessera::test
