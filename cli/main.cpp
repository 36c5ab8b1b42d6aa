// The `tessera` program: finds the command, parses its options, turns errors into sentences and exit codes.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <vector>

#include "command.h"
#include "options.h"
#include "tessera/base/check.h"
#include "tessera/base/isa.h"
#include "tessera/base/nearest_name.h"
#include "tessera/train/version.h"
#include "version.h"

namespace tessera::cli {
namespace {

constexpr Command kCommands[] = {
    {"prepare", "text files -> token files (train and validation)", declare_prepare},
    {"train", "train a GPT; configuration from a TOML file and flags", declare_train},
    {"eval", "loss, perplexity and accuracy of a checkpoint on a token file", declare_eval},
    {"generate", "text from a checkpoint", declare_generate},
    {"inspect", "contents of any file of ours; quantization error per layer", declare_inspect},
    {"bench", "our kernels beside the libraries that torch brings", declare_bench},
};

constexpr const char* kFooter =
    "`tessera COMMAND --help` explains a command. Exit codes: 0 done, 1 internal error, 2 wrong input or usage,\n"
    "130 interrupted. TESSERA_FORCE_ISA, TESSERA_LOG and others: docs/environment_variables.md.";

std::string version_text() {
  return fmt::format("tessera {}\nISA {}\nLibTorch {}", train::version(), describe_isa(), torch_version());
}

// The command's name comes first, so that a misspelled one is seen before CLI11 misses it.
void check_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  TESSERA_CHECK(!arguments.empty(), "no command given, expected one of {}; `tessera --help` explains them",
                fmt::join(names, ", "));
  const std::string& first = arguments.front();
  if (first.starts_with("-")) return;
  TESSERA_CHECK(std::find(names.begin(), names.end(), first) != names.end(),
                "unknown command '{}'{}; `tessera --help` lists the commands", first, did_you_mean(first, names));
}

int run(std::vector<std::string> arguments) {
  CLI::App app("Tessera trains transformers with 4-bit integer matrix products.", "tessera");
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text, "print version, instruction set and LibTorch version");
  app.set_help_flag("-h,--help", "print this help");
  app.footer(kFooter);
  app.get_formatter()->column_width(38);
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");

  Action action;
  for (const Command& command : kCommands) {
    CLI::App* added = app.add_subcommand(command.name, command.summary)->group("Commands");
    added->callback([&action, run = command.declare(*added)] { action = run; });
  }

  if (!arguments.empty() && arguments.front() == "help") {  // `tessera help train`
    arguments.erase(arguments.begin());
    if (!arguments.empty()) check_command(arguments);
    arguments.emplace_back("--help");
  }
  check_command(arguments);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them last first
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fail("{}", usage_error(app, error));
  }
  return action();
}

int report(const char* kind, const std::string& text, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "tessera: {}: {}\n", kind, text);
  return code;
}

}  // namespace
}  // namespace tessera::cli

int main(int argc, char** argv) {
  using namespace tessera::cli;
  try {
    return run({argv + 1, argv + argc});
  } catch (const tessera::Error& error) {
    return report("error", error.what(), kExitInput);
  } catch (const std::filesystem::filesystem_error& error) {
    return report("error", error.what(), kExitInput);
  } catch (const std::bad_alloc&) {
    return report("error", "out of memory", kExitInput);
  } catch (const std::exception& error) {
    return report("internal error", error.what(), kExitInternal);
  }
}
