#pragma once
// A run's checkpoints: root/step-N/, each complete or absent. Files are written and flushed in root/.tmp-step-N-PID,
// manifest.json last, then the folder is renamed and root flushed. A writer holds a lock (flock) on its folder, so
// that folders left by killed processes are told from live ones, whatever the process ids. manifest.json:
//
//   {"checksum": "0123456789abcdef", "files": {"model.safetensors": {"bytes": 123, "xxh3": "..."}, ...},
//    "format": "tessera-checkpoint", "step": N, "user": {...}, "version": 1}
//
// keys sorted, indented by 2, one line break at the end; checksum is XXH3-64 of the same text with the checksum "".
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/io/safetensors.h"

namespace tessera::io {

class CheckpointStore;

/// One checkpoint under construction; without commit() nothing of it remains. Must not outlive its store.
class CheckpointWriter {
 public:
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&& other) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) = delete;

  /// `filename` is a plain file name, not yet used in this checkpoint and not manifest.json.
  void add_safetensors(const std::string& filename, std::span<const TensorView> tensors, const Metadata& metadata = {});
  void add_text(const std::string& filename, std::string_view text);
  /// Throws Error for numbers that are not finite, which JSON does not have.
  void add_json(const std::string& filename, const nlohmann::json& json);
  /// Write the manifest with `user`, give the checkpoint its name, remove those beyond `keep`. An existing
  /// checkpoint of this step is replaced.
  void commit(const nlohmann::json& user = nlohmann::json::object());

 private:
  friend class CheckpointStore;
  CheckpointWriter(CheckpointStore& store, std::int64_t step);
  std::filesystem::path place(const std::string& filename) const;

  CheckpointStore* store_;
  std::int64_t step_;
  std::filesystem::path aside_;  // empty: committed or moved from
  int lock_ = -1;                // the folder's descriptor
  std::map<std::string, FileFacts> files_;
};

/// A checkpoint whose manifest and files have all been verified.
class CheckpointReader {
 public:
  std::int64_t step() const { return step_; }
  const std::filesystem::path& path() const { return path_; }
  const nlohmann::json& user() const { return user_; }
  std::vector<std::string> files() const;
  bool contains(const std::string& filename) const { return files_.contains(filename); }
  /// Throws Error when the checkpoint has no such file.
  SafetensorsFile safetensors(const std::string& filename) const;
  std::string text(const std::string& filename) const;
  nlohmann::json json(const std::string& filename) const;

 private:
  friend CheckpointReader open_checkpoint(const std::filesystem::path& path);
  std::filesystem::path place(const std::string& filename) const;

  std::int64_t step_ = 0;
  std::filesystem::path path_;
  nlohmann::json user_;
  std::map<std::string, FileFacts> files_;
};

/// Open a checkpoint folder; throws Error that names the damaged or missing file. Reads every byte. Files that the
/// manifest does not list are no part of the checkpoint.
CheckpointReader open_checkpoint(const std::filesystem::path& path);

class CheckpointStore {
 public:
  /// `root` (e.g. run/checkpoints) is created by the first begin(). keep: newest checkpoints kept, 0: all.
  explicit CheckpointStore(std::filesystem::path root, int keep = 0);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path path(std::int64_t step) const;

  /// Start a checkpoint; folders left aside by processes that no longer run are removed first.
  CheckpointWriter begin(std::int64_t step);

  /// Steps that have a checkpoint, ascending; nothing is verified.
  std::vector<std::int64_t> steps() const;
  std::optional<std::int64_t> latest() const;

  /// Open one step; throws Error when it is absent or damaged.
  CheckpointReader open(std::int64_t step) const;
  /// The newest that verifies, with a warning for each damaged one passed over; nothing when there is none.
  std::optional<CheckpointReader> open_latest_valid() const;

 private:
  friend class CheckpointWriter;
  void remove_stale() const;
  void put_in_place(const std::filesystem::path& aside, std::int64_t step) const;
  void remove(std::int64_t step) const;
  void prune(std::int64_t committed) const;

  std::filesystem::path root_;
  int keep_;
};

}  // namespace tessera::io
