// tessera inspect: what is in a file or folder of ours.
#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "inspect/report.h"
#include "options.h"

namespace tessera::cli {
namespace {

struct InspectArguments {
  std::string path, recipe;
  bool no_verify = false, json = false;
};

int run_inspect(const InspectArguments& arguments) {
  InspectOptions options;
  options.verify = !arguments.no_verify;
  if (!arguments.recipe.empty()) options.recipe = quant::Recipe::named(arguments.recipe);
  const Inspection inspection = inspect_path(arguments.path, options);
  fmt::print("{}", arguments.json ? inspection.json.dump(2) + "\n" : inspection.text);
  return kExitOk;
}

}  // namespace

Action declare_inspect(CLI::App& app) {
  auto arguments = std::make_shared<InspectArguments>();
  app.add_option("PATH", arguments->path,
                 "token file, safetensors file, checkpoint or run folder, metrics.jsonl, summary.json or config.toml")
      ->option_text("")
      ->required();
  add_text(app, "--recipe", arguments->recipe, "NAME",
           "of a checkpoint's weight errors, instead of the one it was trained in");
  app.add_flag("--no-verify", arguments->no_verify, "read the header of a token file only, not its checksum");
  app.add_flag("--json", arguments->json, "print one JSON object instead of text");
  app.footer(
      "For a checkpoint or run it shows per linear layer what quantizing the weights loses: SNR in dB, share of "
      "clipped\n"
      "weights, largest error. A damaged file is named and ends with exit code 2.");
  return [arguments] { return run_inspect(*arguments); };
}

}  // namespace tessera::cli
