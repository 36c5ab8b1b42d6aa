#pragma once
// A TrainConfig from a TOML file and flags: both by the trainer's table of keys, flags last.
#include <CLI/App.hpp>
#include <functional>
#include <string>

#include "tessera/train/config.h"

namespace tessera::cli {

/// Store every entry of TOML `text`; `name` stands for the file in messages. Throws Error with file, line and key for
/// an unknown key, a value of another type or out of range.
void apply_toml(train::TrainConfig& config, std::string_view text, const std::string& name);

/// Declare one flag per key, grouped as the table says, and `--config FILE`. The result makes the configuration after
/// parsing: defaults, then the file, then the flags.
std::function<train::TrainConfig()> declare_train_options(CLI::App& app);

}  // namespace tessera::cli
