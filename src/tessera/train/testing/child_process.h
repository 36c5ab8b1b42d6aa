#pragma once
// A training process (testing/train_child.cpp) that a test watches, signals and waits for.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/train/config.h"

namespace tessera::testing {

class ChildProcess {
 public:
  /// Train with `config`, output to `log`.
  ChildProcess(const train::TrainConfig& config, const std::filesystem::path& log) {
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
    std::vector<std::string> words{self.parent_path() / "train_child"};  // CMake puts them side by side
    for (const train::Key& key : train::config_keys()) words.push_back(key.name + "=" + train::value_text(config, key));
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    const int error = ::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    TESSERA_CHECK(error == 0, "cannot start {}", words[0]);
  }
  ~ChildProcess() {
    if (!running()) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void signal(int number) const { ::kill(pid_, number); }

  bool running() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return !ended_;
  }

  /// Wait until `condition` holds or the process has ended; true when it holds.
  bool wait_until(const std::function<bool()>& condition) {
    while (running()) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }

  /// Exit code, or minus the signal that ended the process.
  int wait() {
    if (!ended_) ::waitpid(pid_, &status_, 0);
    ended_ = true;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace tessera::testing
