#pragma once
// Runs the `tessera` program and looks at what it leaves: exit code, both outputs, files.
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tessera::test {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;

struct ProgramResult {
  int exit_code = -1;  ///< 128 + signal when a signal ended it
  std::string out, err;
};

/// A program that may still run; its outputs go to files in `folder`.
class Program {
 public:
  Program(const Arguments& arguments, const fs::path& folder, const std::string& input = "");
  void signal(int number) const;
  ProgramResult wait();

 private:
  pid_t process_ = -1;
  fs::path out_, err_;
};

/// Run to the end.
ProgramResult run_program(const Arguments& arguments, const std::string& input = "");

/// Checksum of every file below `root` by its relative path; folders have 0.
std::map<std::string, std::uint64_t> hash_tree(const fs::path& root);

/// A folder of its own that goes with the object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Token files and a trained run of a tiny model, made once per process by the program itself.
struct Fixture {
  ScratchFolder folder;
  fs::path text, tokens, validation, run, checkpoint;
  Fixture();
};
const Fixture& fixture();

/// Flags of a training run of the tiny model into `out`.
Arguments train_arguments(const fs::path& tokens, const fs::path& out);

void flip_bit(const fs::path& file, std::uint64_t byte, int bit = 0);

}  // namespace tessera::test
