// tessera eval: quality of a checkpoint on a token file.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "model_options.h"
#include "options.h"
#include "table.h"
#include "tessera/base/check.h"
#include "tessera/nn/local_runner.h"
#include "tessera/train/evaluator.h"

namespace tessera::cli {
namespace {

struct EvalArguments {
  ModelArguments model;
  std::string data;
  std::int64_t batch = 16, batches = 0;
  bool json = false;
};

std::string describe(const data::Vocabulary& vocabulary) {
  return fmt::format("{} tokens of tokenizer '{}'", vocabulary.size, vocabulary.tokenizer);
}

void print_text(const train::Evaluation& result, const train::LoadedModel& loaded, const std::string& file) {
  fmt::print("checkpoint  {} (step {})\nrecipe      {}, head {}\ndata        {}, {} targets\n\n", loaded.path.string(),
             loaded.facts.progress.step, loaded.model->options().recipe.describe(),
             loaded.model->options().head.describe(), file, format_count(result.tokens));
  fmt::print("loss           {:.4f} nats per token\nperplexity     {:.3f}\n", result.loss, result.perplexity);
  if (result.bits_per_byte) fmt::print("bits per byte  {:.4f}\n", *result.bits_per_byte);
  if (result.accuracy) fmt::print("accuracy       {:.2f} %\n", 100 * *result.accuracy);
}

void print_json(const train::Evaluation& result, const train::LoadedModel& loaded, const std::string& file) {
  nlohmann::ordered_json json = {{"checkpoint", loaded.path.string()},
                                 {"step", loaded.facts.progress.step},
                                 {"recipe", loaded.model->options().recipe.describe()},
                                 {"head", loaded.model->options().head.describe()},
                                 {"data", file},
                                 {"tokens", result.tokens},
                                 {"loss", result.loss},
                                 {"perplexity", result.perplexity}};
  if (result.bits_per_byte) json["bits_per_byte"] = *result.bits_per_byte;
  if (result.accuracy) json["accuracy"] = *result.accuracy;
  fmt::print("{}\n", json.dump(2));
}

int run_eval(const EvalArguments& arguments) {
  train::LoadedModel loaded = load_model(arguments.model);
  const std::string file = arguments.data.empty() ? loaded.facts.config.data.validation : arguments.data;
  TESSERA_CHECK(!file.empty(), "{} was trained without a validation file; name one by --data FILE",
                loaded.path.string());
  const train::Evaluator evaluator(file, {.batch = arguments.batch,
                                          .context = loaded.model->options().context,
                                          .document_boundaries = loaded.facts.config.data.document_boundaries,
                                          .batches = arguments.batches,
                                          .accuracy = true});
  TESSERA_CHECK(evaluator.vocabulary() == loaded.facts.vocabulary, "{} has {}, but {} was trained on {}", file,
                describe(evaluator.vocabulary()), loaded.path.string(), describe(loaded.facts.vocabulary));
  nn::LocalRunner runner;
  const train::Evaluation result = evaluator.evaluate(loaded.model, runner);
  arguments.json ? print_json(result, loaded, file) : print_text(result, loaded, file);
  return kExitOk;
}

}  // namespace

Action declare_eval(CLI::App& app) {
  auto arguments = std::make_shared<EvalArguments>();
  declare_model_options(app, arguments->model);
  add_text(app, "--data", arguments->data, "FILE", "token file; default: the validation file of the checkpoint's run");
  add_integer(app, "--batch", arguments->batch, {.least = 1, .most = 1 << 20}, "sequences at a time");
  add_integer(app, "--batches", arguments->batches, {.least = 0}, "so many of the file's first batches; 0: all");
  app.add_flag("--json", arguments->json, "print one JSON object instead of text");
  app.footer(
      "loss is the mean cross-entropy in nats per token, perplexity e^loss, accuracy the share of tokens that were "
      "the\n"
      "likeliest. Example: tessera eval runs/mine --data data/validation.tok");
  return [arguments] { return run_eval(*arguments); };
}

}  // namespace tessera::cli
