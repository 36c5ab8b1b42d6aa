#pragma once
// Folders for tests: removed at the end, and one on a disk so small that it fills.
#include <stdlib.h>
#include <sys/mount.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "tessera/base/check.h"

namespace tessera::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera-XXXXXX").string();
    TESSERA_CHECK(::mkdtemp(name.data()) != nullptr, "cannot create {}", name);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A tmpfs of a few pages. Mounting takes root: check mounted() and skip the test otherwise.
class SmallDisk {
 public:
  explicit SmallDisk(std::int64_t bytes) {
    const std::string size = "size=" + std::to_string(bytes);
    mounted_ = ::mount("tessera-test", directory_.path().c_str(), "tmpfs", 0, size.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) {
      ::umount2(directory_.path().c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  const std::filesystem::path& path() const { return directory_.path(); }

 private:
  TemporaryDirectory directory_;
  bool mounted_ = false;
};

}  // namespace tessera::testing
