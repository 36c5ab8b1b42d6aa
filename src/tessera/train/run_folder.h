#pragma once
// Where the parts of a run lie, and that only one process writes them.
#include <cstdint>
#include <filesystem>

namespace tessera::train {

class RunFolder {
 public:
  explicit RunFolder(std::filesystem::path root) : root_(std::move(root)) {}
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path config() const { return root_ / "config.toml"; }
  std::filesystem::path metrics() const { return root_ / "metrics.jsonl"; }
  std::filesystem::path checkpoints() const { return root_ / "checkpoints"; }
  std::filesystem::path tensorboard() const { return root_ / "tensorboard"; }
  std::filesystem::path summary() const { return root_ / "summary.json"; }
  std::filesystem::path sample(std::int64_t step) const;

  /// Whether any part of a run is there.
  bool holds_run() const;

  /// Create the folder and lock it until destruction, or until the process ends however it ends. Throws Error when it
  /// cannot be created, is no directory, or another process trains in it.
  void acquire();

 private:
  std::filesystem::path root_;
  int lock_ = -1;
};

}  // namespace tessera::train
