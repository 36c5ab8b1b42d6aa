// tessera generate: text from a checkpoint, as it comes.
#include "tessera/train/generator.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "command.h"
#include "model_options.h"
#include "options.h"
#include "tessera/base/check.h"
#include "tessera/data/tokenizer.h"
#include "tessera/train/signals.h"

namespace tessera::cli {
namespace {

struct GenerateArguments {
  ModelArguments model;
  std::string prompt;
  std::int64_t tokens = 256, top_k = 0, seed = 0;
  double temperature = 0.8, top_p = 1;
  bool no_echo = false, past_end = false;
};

void print_now(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  TESSERA_CHECK(std::fflush(stdout) == 0, "cannot write to the standard output");
}

std::string read_prompt(const std::string& prompt) {
  if (prompt != "-") return prompt;
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

int run_generate(const GenerateArguments& arguments) {
  train::LoadedModel loaded = load_model(arguments.model);
  const data::Vocabulary& vocabulary = loaded.facts.vocabulary;
  TESSERA_CHECK(vocabulary.tokenizer == data::ByteTokenizer::kName,
                "{} was trained on tokens of '{}', expected '{}', the one tokenizer that generate has",
                loaded.path.string(), vocabulary.tokenizer, data::ByteTokenizer::kName);
  const std::string prompt = read_prompt(arguments.prompt);
  std::vector<std::int64_t> ids = data::ByteTokenizer().encode(prompt);
  if (ids.empty()) ids.push_back(data::ByteTokenizer::kEndOfText);  // what comes before a document
  if (!arguments.no_echo) print_now(prompt);

  train::GenerationOptions options;
  options.sampling = {.temperature = arguments.temperature,
                      .top_k = arguments.top_k,
                      .top_p = arguments.top_p,
                      .seed = static_cast<std::uint64_t>(arguments.seed)};
  options.tokens = arguments.tokens;
  if (!arguments.past_end) options.stop_token = data::ByteTokenizer::kEndOfText;

  data::StreamDecoder decoder;
  const train::StopSignals signals;
  train::generate(loaded.model, ids, options, [&](std::int64_t id) {
    print_now(decoder.push(id));
    return signals.received() == 0;
  });
  print_now(decoder.finish() + "\n");
  return signals.received() == 0 ? kExitOk : 128 + signals.received();
}

}  // namespace

Action declare_generate(CLI::App& app) {
  auto arguments = std::make_shared<GenerateArguments>();
  declare_model_options(app, arguments->model);
  add_text(app, "--prompt", arguments->prompt, "TEXT",
           "text to go on from; '-' reads it from the standard input; default: a new document");
  add_integer(app, "--tokens", arguments->tokens, {.least = 1, .most = 1 << 30}, "tokens to generate at most");
  add_real(app, "--temperature", arguments->temperature, {.least = 0},
           "divides the logits; 0: the likeliest token always");
  add_integer(app, "--top-k", arguments->top_k, {.least = 0}, "draw from the k likeliest tokens; 0: from all");
  add_real(app, "--top-p", arguments->top_p, {.least = 1e-6, .most = 1},
           "draw from the fewest tokens whose probabilities reach p");
  add_integer(app, "--seed", arguments->seed, {.least = 0}, "of the draws; the same seed gives the same text");
  app.add_flag("--past-end", arguments->past_end, "go on when the model ends the document");
  app.add_flag("--no-echo", arguments->no_echo, "do not print the prompt before the new text");
  app.footer("Example: tessera generate runs/mine --prompt \"Once upon a time\" --tokens 300");
  return [arguments] { return run_generate(*arguments); };
}

}  // namespace tessera::cli
