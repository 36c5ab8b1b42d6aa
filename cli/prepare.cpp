// tessera prepare: text files -> train.tok and validation.tok.
#include "tessera/data/prepare.h"

#include <fmt/format.h>

#include <memory>

#include "command.h"
#include "options.h"
#include "table.h"

namespace tessera::cli {
namespace {

struct PrepareArguments {
  std::vector<std::string> inputs;
  std::string output;
  data::PrepareOptions options;
};

int run_prepare(const PrepareArguments& arguments) {
  data::PrepareOptions options = arguments.options;
  options.inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
  options.output = arguments.output;
  const data::PrepareReport report = data::prepare(options);

  Table table({"split", "file", "text", "tokens", "documents"});
  const std::pair<const char*, const data::SplitReport&> splits[] = {{"train", report.train},
                                                                     {"validation", report.validation}};
  for (const auto& [name, split] : splits)
    if (!split.path.empty())
      table.add({name, split.path.string(), format_bytes(split.text_bytes), format_count(split.tokens),
                 format_count(split.documents)});
  fmt::print("{} text file{}\n{}", report.files, report.files == 1 ? "" : "s", table.text());
  return kExitOk;
}

}  // namespace

Action declare_prepare(CLI::App& app) {
  auto arguments = std::make_shared<PrepareArguments>();
  app.add_option("INPUT", arguments->inputs, "text files, or directories whose .txt files are taken in order")
      ->option_text("...")
      ->required();
  add_text(app, "--out", arguments->output, "DIR", "directory for train.tok and validation.tok; created when missing")
      ->required();
  add_real(app, "--validation-fraction", arguments->options.validation_fraction, {.least = 0, .most = 0.999999},
           "tail of each input that becomes validation text; 0 writes no validation.tok");
  add_text(app, "--separator", arguments->options.separator, "LINE",
           "a line that is exactly this ends a document; '' makes each file one document");
  app.add_flag("--overwrite", arguments->options.overwrite, "replace token files that are already there");
  app.footer("Example: tessera prepare book.txt essays/ --out data");
  return [arguments] { return run_prepare(*arguments); };
}

}  // namespace tessera::cli
