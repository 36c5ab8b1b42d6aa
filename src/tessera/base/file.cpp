#include "tessera/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

[[noreturn]] void fail_errno(const char* action, const std::filesystem::path& path, int error) {
  fail("cannot {} {}: {}", action, path.string(), std::system_category().message(error));
}

class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : value_(::open(path.c_str(), flags | O_CLOEXEC)) {
    if (value_ < 0) {
      fail_errno("open", path, errno);
    }
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

std::filesystem::path directory_of(const std::filesystem::path& path) {
  const auto parent = path.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file(path, O_RDONLY);
  struct stat facts {};
  if (::fstat(file.value(), &facts) != 0) {
    fail_errno("examine", path, errno);
  }
  TESSERA_CHECK(S_ISREG(facts.st_mode), "{} is not a regular file", path.string());
  size_ = static_cast<std::size_t>(facts.st_size);
  if (size_ == 0) {
    return;
  }
  void* const data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (data == MAP_FAILED) {
    fail_errno("map", path, errno);
  }
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AtomicFile::AtomicFile(std::filesystem::path path, ExistingFile existing)
    : path_(std::move(path)), existing_(existing) {
  TESSERA_CHECK(existing_ == ExistingFile::kReplace || !path_exists(path_), "{} exists already", path_.string());
  static std::atomic<std::uint64_t> counter{0};
  do {  // another host may use the same process id on a shared disk: take a name that is free
    aside_ =
        directory_of(path_) / fmt::format(".{}.tmp-{}-{}", path_.filename().string(), ::getpid(), counter.fetch_add(1));
    descriptor_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) {
    fail_with_errno("create");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!committed_) {
    ::unlink(aside_.c_str());
  }
}

void AtomicFile::fail_with_errno(const char* action) const { fail_errno(action, path_, errno); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  write_at(size_, bytes);
  size_ += bytes.size();
}

void AtomicFile::write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }

void AtomicFile::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  TESSERA_DCHECK(descriptor_ >= 0 && offset <= size_);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      fail_with_errno("write");
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::seal() {
  if (descriptor_ < 0) {
    return;
  }
  if (::fsync(descriptor_) != 0) {
    fail_with_errno("flush");
  }
  if (::close(std::exchange(descriptor_, -1)) != 0) {  // network file systems report a full disk here
    fail_with_errno("close");
  }
}

void AtomicFile::commit() {
  TESSERA_DCHECK(!committed_);
  seal();
  TESSERA_CHECK(existing_ == ExistingFile::kReplace || !path_exists(path_), "{} exists already", path_.string());
  if (::rename(aside_.c_str(), path_.c_str()) != 0) {
    fail_with_errno("put in place");
  }
  committed_ = true;
  sync_directory(directory_of(path_));
}

std::string read_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_file(const std::filesystem::path& path, std::string_view text, ExistingFile existing) {
  AtomicFile file(path, existing);
  file.write(text);
  file.commit();
}

bool path_exists(const std::filesystem::path& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) == 0) {
    return true;
  }
  if (errno != ENOENT && errno != ENOTDIR) {
    fail_errno("examine", path, errno);
  }
  return false;
}

void sync_directory(const std::filesystem::path& path) {
  const Descriptor directory(path, O_RDONLY | O_DIRECTORY);
  if (::fsync(directory.value()) != 0) {
    fail_errno("flush", path, errno);
  }
}

}  // namespace tessera
