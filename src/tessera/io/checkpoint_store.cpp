#include "tessera/io/checkpoint_store.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/io/manifest.h"

namespace tessera::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAsidePrefix = ".tmp-step-";

[[noreturn]] void fail_errno(const char* action, const fs::path& path, int error) {
  fail("cannot {} {}: {}", action, path.string(), std::system_category().message(error));
}

/// N of "step-N", written the one canonical way.
std::optional<std::int64_t> parse_step(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  std::int64_t step = -1;
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  const bool canonical = error == std::errc() && stop == end && step >= 0 && name == fmt::format("step-{}", step);
  return canonical ? std::optional(step) : std::nullopt;
}

std::vector<fs::path> directories_below(const fs::path& root) {
  std::vector<fs::path> directories;
  if (!path_exists(root)) {
    return directories;
  }
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;  // an entry that vanished meanwhile is no directory
    if (entry->is_directory(ignored)) {
      directories.push_back(entry->path());
    }
  }
  TESSERA_CHECK(!error, "cannot list {}: {}", root.string(), error.message());
  return directories;
}

/// Open and lock a folder; -1 when someone else holds it, it vanished, or the file system has no locks.
int try_lock(const fs::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0 && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    ::close(descriptor);
    return -1;
  }
  return descriptor;
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  TESSERA_CHECK(!error, "cannot remove {}: {}", path.string(), error.message());
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointStore& store, std::int64_t step) : store_(&store), step_(step) {
  const fs::path aside = store.root() / fmt::format("{}{}-{}", kAsidePrefix, step, ::getpid());
  if (::mkdir(aside.c_str(), 0777) != 0) {
    fail_errno("create", aside, errno);
  }
  aside_ = aside;
  // Only keeps others from taking the folder for abandoned. Where locks are missing nobody gets one, so nothing is
  // ever taken for abandoned, and going on without is safe.
  lock_ = try_lock(aside_);
}

CheckpointWriter::CheckpointWriter(CheckpointWriter&& other) noexcept
    : store_(other.store_),
      step_(other.step_),
      aside_(std::exchange(other.aside_, {})),
      lock_(std::exchange(other.lock_, -1)),
      files_(std::move(other.files_)) {}

CheckpointWriter::~CheckpointWriter() {
  if (!aside_.empty()) {
    std::error_code ignored;  // what cannot be removed now, the next begin() removes
    fs::remove_all(aside_, ignored);
  }
  if (lock_ >= 0) {
    ::close(lock_);
  }
}

fs::path CheckpointWriter::place(const std::string& filename) const {
  TESSERA_CHECK(!aside_.empty(), "the checkpoint of step {} is committed already", step_);
  check_checkpoint_filename(filename);
  TESSERA_CHECK(!files_.contains(filename), "the checkpoint of step {} has a file {} already", step_, filename);
  return aside_ / filename;
}

void CheckpointWriter::add_safetensors(const std::string& filename, std::span<const TensorView> tensors,
                                       const Metadata& metadata) {
  const fs::path path = place(filename);
  files_[filename] = write_safetensors(path, tensors, metadata, ExistingFile::kRefuse);
}

void CheckpointWriter::add_text(const std::string& filename, std::string_view text) {
  const fs::path path = place(filename);
  write_file(path, text, ExistingFile::kRefuse);
  files_[filename] = file_facts(text);
}

void CheckpointWriter::add_json(const std::string& filename, const nlohmann::json& json) {
  add_text(filename, json_text(json, filename));
}

void CheckpointWriter::commit(const nlohmann::json& user) {
  TESSERA_CHECK(!aside_.empty(), "the checkpoint of step {} is committed already", step_);
  write_file(aside_ / kManifestName, manifest_text({step_, files_, user}), ExistingFile::kRefuse);
  store_->put_in_place(aside_, step_);
  aside_.clear();
  store_->prune(step_);
}

CheckpointStore::CheckpointStore(fs::path root, int keep) : root_(std::move(root)), keep_(keep) {
  TESSERA_CHECK(keep >= 0, "the number of checkpoints to keep is {}, expected at least 0", keep);
}

fs::path CheckpointStore::path(std::int64_t step) const { return root_ / fmt::format("step-{}", step); }

CheckpointWriter CheckpointStore::begin(std::int64_t step) {
  TESSERA_CHECK(step >= 0, "the checkpoint's step is {}, expected at least 0", step);
  std::error_code error;
  fs::create_directories(root_, error);
  TESSERA_CHECK(!error, "cannot create {}: {}", root_.string(), error.message());
  remove_stale();
  return CheckpointWriter(*this, step);
}

std::vector<std::int64_t> CheckpointStore::steps() const {
  std::vector<std::int64_t> steps;
  for (const fs::path& directory : directories_below(root_)) {
    if (const auto step = parse_step(directory.filename().string())) {
      steps.push_back(*step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<std::int64_t> CheckpointStore::latest() const {
  const std::vector<std::int64_t> all = steps();
  return all.empty() ? std::nullopt : std::optional(all.back());
}

CheckpointReader CheckpointStore::open(std::int64_t step) const {
  CheckpointReader reader = open_checkpoint(path(step));
  TESSERA_CHECK(reader.step() == step, "{} is damaged: its manifest is of step {}", path(step).string(), reader.step());
  return reader;
}

std::optional<CheckpointReader> CheckpointStore::open_latest_valid() const {
  const std::vector<std::int64_t> all = steps();
  for (auto step = all.rbegin(); step != all.rend(); ++step) {
    try {
      return open(*step);
    } catch (const Error& error) {
      log(LogLevel::kWarn, "passing over the checkpoint of step {}: {}", *step, error.what());
    }
  }
  return std::nullopt;
}

void CheckpointStore::remove_stale() const {
  for (const fs::path& directory : directories_below(root_)) {
    if (!directory.filename().string().starts_with(kAsidePrefix)) {
      continue;
    }
    const int lock = try_lock(directory);
    if (lock >= 0) {  // nobody holds it: its process is gone
      remove_tree(directory);
      ::close(lock);
    }
  }
}

void CheckpointStore::put_in_place(const fs::path& aside, std::int64_t step) const {
  const fs::path target = path(step);
  sync_directory(aside);
  if (path_exists(target)) {
    // Swapped in one operation, so that there is a checkpoint of this step at every moment.
    if (::renameat2(AT_FDCWD, aside.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
      sync_directory(root_);
      remove_tree(aside);
      return;
    }
    if (errno != EINVAL) {
      fail_errno("replace", target, errno);
    }
    remove(step);  // this file system (NFS is one) cannot swap: for a moment there is none
  }
  if (::rename(aside.c_str(), target.c_str()) != 0) {
    fail_errno("put in place", target, errno);
  }
  sync_directory(root_);
}

void CheckpointStore::remove(std::int64_t step) const {
  // Renamed first: half a checkpoint must not stand under its name if the process ends meanwhile.
  const fs::path aside = root_ / fmt::format("{}{}-{}-old", kAsidePrefix, step, ::getpid());
  if (::rename(path(step).c_str(), aside.c_str()) != 0) {
    fail_errno("remove", path(step), errno);
  }
  remove_tree(aside);
}

void CheckpointStore::prune(std::int64_t committed) const {
  if (keep_ == 0) {
    return;
  }
  const std::vector<std::int64_t> all = steps();
  auto surplus = static_cast<std::int64_t>(all.size()) - keep_;
  for (const std::int64_t step : all) {
    if (surplus > 0 && step != committed) {
      remove(step);
      --surplus;
    }
  }
}

}  // namespace tessera::io
