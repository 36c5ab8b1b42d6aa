#include "tessera/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tessera/base/check.h"
#include "tessera/base/file.h"

namespace tessera::train {

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

std::filesystem::path RunFolder::sample(std::int64_t step) const {
  return root_ / "samples" / fmt::format("step-{}.txt", step);
}

bool RunFolder::holds_run() const {
  for (const std::filesystem::path& part : {config(), metrics(), checkpoints(), summary()})
    if (path_exists(part)) return true;
  return false;
}

void RunFolder::acquire() {
  std::error_code error;
  std::filesystem::create_directories(root_, error);
  TESSERA_CHECK(!error, "cannot create the run folder {}: {}", root_.string(), error.message());
  lock_ = ::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  TESSERA_CHECK(lock_ >= 0, "cannot open the run folder {}: {}", root_.string(), std::strerror(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  TESSERA_CHECK(errno != EWOULDBLOCK, "another process is training in {}", root_.string());
  // Some network file systems have no locks; there the user sees to it.
  TESSERA_CHECK(errno == ENOLCK || errno == ENOTSUP || errno == EINVAL, "cannot lock the run folder {}: {}",
                root_.string(), std::strerror(errno));
}

}  // namespace tessera::train
