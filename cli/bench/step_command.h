#pragma once
// Options of `tessera bench step`.
#include <memory>

#include "command.h"

namespace tessera::cli {

/// Add the subcommand `step` to `bench`; `action` becomes what runs when it was chosen.
void declare_bench_step(CLI::App& bench, const std::shared_ptr<Action>& action);

}  // namespace tessera::cli
