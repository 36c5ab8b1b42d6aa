#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/base/file.h"

extern char** environ;

namespace tessera::test {

Program::Program(const Arguments& arguments, const fs::path& folder, const std::string& input)
    : out_(folder / "stdout"), err_(folder / "stderr") {
  const fs::path in = folder / "stdin";
  std::ofstream(in) << input;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, in.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  Arguments all = {TESSERA_PROGRAM};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& argument : all) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const int error = posix_spawn(&process_, TESSERA_PROGRAM, &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  TESSERA_CHECK(error == 0, "cannot start {}: {}", TESSERA_PROGRAM, std::strerror(error));
}

void Program::signal(int number) const { kill(process_, number); }

ProgramResult Program::wait() {
  int status = 0;
  TESSERA_CHECK(waitpid(process_, &status, 0) == process_, "waitpid failed");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, read_file(out_), read_file(err_)};
}

ProgramResult run_program(const Arguments& arguments, const std::string& input) {
  const ScratchFolder folder;
  return Program(arguments, folder.path(), input).wait();
}

std::map<std::string, std::uint64_t> hash_tree(const fs::path& root) {
  std::map<std::string, std::uint64_t> hashes;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = fs::relative(entry.path(), root).string();
    hashes[name] = entry.is_regular_file() ? xxh3(MappedFile(entry.path()).bytes()) : 0;
  }
  return hashes;
}

ScratchFolder::ScratchFolder() {
  std::string pattern = testing::TempDir() + "tessera-cli-XXXXXX";
  TESSERA_CHECK(mkdtemp(pattern.data()) != nullptr, "cannot make a folder like {}", pattern);
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

Arguments train_arguments(const fs::path& tokens, const fs::path& out) {
  return {"train",
          "--data.train",
          tokens.string(),
          "--out",
          out.string(),
          "--steps",
          "4",
          "--batch",
          "2",
          "--model.layers",
          "2",
          "--model.heads",
          "2",
          "--model.width",
          "32",
          "--model.context",
          "16",
          "--checkpoint.every",
          "2",
          "--sample.tokens",
          "8"};
}

Fixture::Fixture() {
  text = folder / "text.txt";
  std::string content;
  for (int i = 0; i < 120; ++i) content += "the quick brown fox number " + std::to_string(i * i) + " jumps\n";
  std::ofstream(text) << content;
  const auto prepared = run_program({"prepare", text.string(), "--out", (folder / "data").string()});
  TESSERA_CHECK(prepared.exit_code == 0, "prepare failed: {}", prepared.err);
  tokens = folder / "data" / "train.tok";
  validation = folder / "data" / "validation.tok";
  run = folder / "run";
  Arguments arguments = train_arguments(tokens, run);
  arguments.insert(arguments.end(), {"--data.validation", validation.string()});
  const auto trained = run_program(arguments);
  TESSERA_CHECK(trained.exit_code == 0, "train failed: {}", trained.err);
  checkpoint = run / "checkpoints" / "step-4";
}

const Fixture& fixture() {
  static const Fixture made;
  return made;
}

void flip_bit(const fs::path& file, std::uint64_t byte, int bit) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(byte));
  const char value = static_cast<char>(stream.get());
  stream.seekp(static_cast<std::streamoff>(byte));
  stream.put(static_cast<char>(value ^ (1 << bit)));
}

}  // namespace tessera::test
