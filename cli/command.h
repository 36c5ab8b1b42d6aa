#pragma once
// The commands of the `tessera` program: each declares its options on a CLI11 app and returns what runs after parsing.
// Exit codes: 0 done, 1 a mistake of ours, 2 wrong input or usage (one sentence on stderr), 130 interrupted.
#include <CLI/App.hpp>
#include <functional>

namespace tessera::cli {

inline constexpr int kExitOk = 0, kExitInternal = 1, kExitInput = 2, kExitInterrupted = 130;

/// Runs a parsed command; returns the exit code.
using Action = std::function<int()>;

struct Command {
  const char* name;
  const char* summary;  ///< the line that `tessera --help` shows
  Action (*declare)(CLI::App& app);
};

Action declare_prepare(CLI::App& app);
Action declare_train(CLI::App& app);
Action declare_eval(CLI::App& app);
Action declare_generate(CLI::App& app);
Action declare_inspect(CLI::App& app);
Action declare_bench(CLI::App& app);

}  // namespace tessera::cli
