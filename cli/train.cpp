// tessera train: a run from a TOML file and flags.
#include <fmt/format.h>

#include <cstdio>

#include "command.h"
#include "tessera/base/memory.h"
#include "tessera/train/trainer.h"
#include "train_options.h"

namespace tessera::cli {
namespace {

int run_train(const train::TrainConfig& config) {
  keep_freed_memory();
  train::Trainer trainer(config);
  fmt::print("{}\n", trainer.describe());
  std::fflush(stdout);
  const train::TrainResult result = trainer.run();
  fmt::print(result.outcome == train::Outcome::kDiverged ? stderr : stdout, "{}\n", result.message);
  return result.exit_code();
}

}  // namespace

Action declare_train(CLI::App& app) {
  const auto make_config = declare_train_options(app);
  app.footer(
      "In a TOML file `--model.width 256` is `width = 256` under `[model]`. Ctrl-C saves and says how to go on.\n"
      "Example: tessera train --config run.toml --data.train data/train.tok --recipe w4a8 --out runs/mine");
  return [make_config] { return run_train(make_config()); };
}

}  // namespace tessera::cli
