#include "model_options.h"

#include "bench/benches.h"
#include "options.h"

namespace tessera::cli {

void declare_model_options(CLI::App& app, ModelArguments& arguments) {
  app.add_option("CHECKPOINT", arguments.path,
                 "checkpoint folder (RUN/checkpoints/step-N), or a run folder: its newest valid one")
      ->option_text("")
      ->required();
  add_text(app, "--recipe", arguments.recipe, "NAME",
           "run the blocks' products by another recipe than they were trained in");
  add_text(app, "--head", arguments.head, "NAME", "run the output head by another recipe");
  add_integer(app, "--threads", arguments.threads, {.least = 0, .most = 4096},
              "CPU threads, 0: as many as there are cores; never changes results");
}

train::LoadedModel load_model(const ModelArguments& arguments) {
  use_threads(arguments.threads);
  return train::load_model(arguments.path, [&](nn::GptOptions& options) {
    if (!arguments.recipe.empty()) options.recipe = quant::Recipe::named(arguments.recipe);
    if (!arguments.head.empty()) options.head = quant::Recipe::named(arguments.head);
  });
}

}  // namespace tessera::cli
