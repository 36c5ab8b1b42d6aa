#pragma once
// One child process at a time, its output as text.
#include <map>
#include <string>
#include <vector>

namespace tessera::cli {

struct ProcessResult {
  int status = 0;  ///< exit code, or minus the signal that ended it
  std::string out, err;
};

/// Run `command` (a path, or a name in PATH, and its arguments) to its end. It gets this process's environment without
/// the variables that begin with one of `without`, and with those of `with`; it ends when this process does.
/// Error: it cannot be started.
ProcessResult run_process(const std::vector<std::string>& command, const std::map<std::string, std::string>& with = {},
                          const std::vector<std::string>& without = {});

/// The last line of `text` that is not empty, for errors.
std::string last_line(const std::string& text);

}  // namespace tessera::cli
