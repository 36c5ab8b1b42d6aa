#include "bench/process.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera::cli {
namespace {

// What a process writes, in memory: unlike a pipe it needs nobody who reads meanwhile.
class Output {
 public:
  explicit Output(const char* name) : file_(memfd_create(name, MFD_CLOEXEC)) {
    TESSERA_CHECK(file_ >= 0, "cannot create a file in memory: {}", std::strerror(errno));
  }
  ~Output() { close(file_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  int file() const { return file_; }
  std::string text() const {
    std::string all;
    char piece[4096];
    for (ssize_t got; (got = pread(file_, piece, sizeof piece, static_cast<off_t>(all.size()))) > 0;)
      all.append(piece, static_cast<std::size_t>(got));
    return all;
  }

 private:
  int file_;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment(const std::map<std::string, std::string>& with,
                                     const std::vector<std::string>& without) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const bool dropped = with.contains(text.substr(0, text.find('='))) ||
                         std::any_of(without.begin(), without.end(),
                                     [&](const std::string& prefix) { return text.starts_with(prefix); });
    if (!dropped) variables.push_back(text);
  }
  for (const auto& [name, value] : with) variables.push_back(name + "=" + value);
  return variables;
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& command, const std::map<std::string, std::string>& with,
                          const std::vector<std::string>& without) {
  std::vector<std::string> words = command, variables = environment(with, without);
  const std::vector<char*> arguments = pointers(words), settings = pointers(variables);
  const Output out("out"), err("err");
  const pid_t parent = getpid(), child = fork();
  TESSERA_CHECK(child >= 0, "cannot start {}: {}", command[0], std::strerror(errno));
  if (child == 0) {  // only calls that are safe in the child of a process with threads
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(out.file(), STDOUT_FILENO) < 0 || dup2(err.file(), STDERR_FILENO) < 0) _exit(126);
    execvpe(arguments[0], arguments.data(), settings.data());
    const char* why = strerrordesc_np(errno);
    if (write(STDERR_FILENO, why, std::strlen(why)) < 0) _exit(126);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    TESSERA_CHECK(errno == EINTR, "cannot wait for {}: {}", command[0], std::strerror(errno));
  ProcessResult result{WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), out.text(), err.text()};
  TESSERA_CHECK(result.status != 127, "cannot start {}: {}", command[0], result.err);
  return result;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string::npos) return "";
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

}  // namespace tessera::cli
