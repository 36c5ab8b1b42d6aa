#pragma once
// Files that are complete or absent: written aside, flushed to the disk, renamed. Every failure is an Error that
// names the path and what the operating system said ("No space left on device").
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

/// Read-only view of a whole file. The file must not be shortened while mapped (the kernel would raise SIGBUS).
class MappedFile {
 public:
  MappedFile() = default;
  /// Map `path`; throws Error when it is missing, unreadable or no regular file. An empty file gives no bytes.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What to do when the file is already there.
enum class ExistingFile { kReplace, kRefuse };

/// A file under construction: `.<name>.tmp-<pid>-<n>` beside `path` until commit() gives it its name. The destructor of
/// an uncommitted file removes it.
class AtomicFile {
 public:
  /// Create the file aside. kRefuse: throws Error when `path` exists, here and again at commit.
  explicit AtomicFile(std::filesystem::path path, ExistingFile existing = ExistingFile::kReplace);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Append.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Overwrite bytes already written, e.g. a header whose counts were unknown before.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Bytes appended so far.
  std::uint64_t size() const { return size_; }
  /// Put the content on the disk, still aside; after it nothing can be written. Where several files belong
  /// together, seal all before committing the first: what a full disk can fail comes before any file has its name.
  void seal();
  /// seal(), rename, fsync of the directory.
  void commit();

 private:
  [[noreturn]] void fail_with_errno(const char* action) const;

  std::filesystem::path path_, aside_;
  ExistingFile existing_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  bool committed_ = false;
};

/// Read a whole file as text.
std::string read_file(const std::filesystem::path& path);

/// Write a whole file atomically.
void write_file(const std::filesystem::path& path, std::string_view text,
                ExistingFile existing = ExistingFile::kReplace);

/// True when something, be it a dangling link, has this name; throws Error when that cannot be told.
bool path_exists(const std::filesystem::path& path);

/// Flush a directory's entries to the disk.
void sync_directory(const std::filesystem::path& path);

}  // namespace tessera
