#include "tessera/train/trainer.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/data/tokenizer.h"
#include "tessera/train/describe.h"
#include "tessera/train/evaluator.h"
#include "tessera/train/generator.h"
#include "tessera/train/progress.h"
#include "tessera/train/resume.h"
#include "tessera/train/run_folder.h"
#include "tessera/train/signals.h"
#include "tessera/train/tensorboard.h"
#include "tessera/train/training_state.h"

namespace tessera::train {
namespace {

constexpr std::int64_t kSkipsToGiveUp = 3;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool due(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

TrainConfig checked(TrainConfig config) {
  validate(config);
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  return config;
}

}  // namespace

// Files and views of a run under way.
struct Trainer::Outputs {
  Outputs(const RunFolder& folder, const TrainConfig& config, std::int64_t first_step, bool resumed)
      : metrics(folder.metrics(), resumed ? std::optional(first_step) : std::nullopt),
        progress(stdout, first_step, config.steps, config.log.every) {
    if (config.tensorboard) tensorboard.emplace(folder.tensorboard());
  }

  MetricsLog metrics;
  Progress progress;
  std::optional<TensorboardWriter> tensorboard;

  void scalars(std::int64_t step, std::initializer_list<std::pair<const char*, double>> values) {
    if (!tensorboard) return;
    for (const auto& [tag, value] : values) tensorboard->scalar(step, tag, value);
  }
};

struct Trainer::State {
  explicit State(TrainConfig given)
      : config(checked(std::move(given))),
        folder(config.out),
        checkpoint(find_checkpoint(config, folder)),
        training(config),
        store(folder.checkpoints(), static_cast<int>(config.checkpoint.keep)) {
    if (!config.data.validation.empty()) open_evaluator();
    if (checkpoint) training.load(*checkpoint);
    first_step = training.progress().step;
    if (checkpoint && checkpoint->path().parent_path() == store.root()) saved_step = first_step;
  }

  TrainConfig config;
  RunFolder folder;
  std::optional<io::CheckpointReader> checkpoint;  // resumed from
  TrainingState training;
  io::CheckpointStore store;
  std::optional<Evaluator> evaluator;
  std::optional<Outputs> outputs;
  std::function<void(const StepMetrics&)> observer;
  std::atomic<bool> stop{false};
  std::int64_t first_step = 0, saved_step = -1;

  void open_evaluator();
  void open_outputs();
  void step();
  void evaluate();
  void save();
  void sample();
  Summary summarize();
  TrainResult finish();
  TrainResult interrupted(int signal);
  TrainResult diverged();
};

void Trainer::State::open_evaluator() {
  evaluator.emplace(config.data.validation, EvaluatorOptions{.batch = config.batch,
                                                             .context = config.model.context,
                                                             .document_boundaries = config.data.document_boundaries,
                                                             .batches = config.eval.batches});
  const data::Vocabulary &train = training.loader().vocabulary(), &validation = evaluator->vocabulary();
  TESSERA_CHECK(train == validation,
                "data.validation {} has tokenizer '{}' with {} tokens, data.train has '{}' with {}",
                config.data.validation, validation.tokenizer, validation.size, train.tokenizer, train.size);
}

void Trainer::State::open_outputs() {
  folder.acquire();
  // Again, now that nobody else can write: another process may have been here since the constructor looked.
  if (config.resume == "none") find_checkpoint(config, folder);
  write_file(folder.config(), config_toml(config));
  outputs.emplace(folder, config, first_step, /*resumed=*/config.resume != "none");
}

void Trainer::State::step() {
  const std::int64_t next = training.progress().step;
  for (const RecipePhase& phase : recipe_phases(config))
    if (phase.first_step == next && next > 0)
      outputs->progress.message(fmt::format("step {}: recipe {} from here on", next + 1, phase.recipe.describe()));
  const double start = now();
  StepMetrics metrics = training.step();
  metrics.step_s = now() - start;
  metrics.peak_rss_bytes = peak_rss_bytes();
  outputs->metrics.append(to_json(metrics));
  outputs->scalars(metrics.step, {{"train/loss", metrics.loss},
                                  {"train/lr", metrics.lr},
                                  {"train/grad_norm", metrics.grad_norm},
                                  {"train/tokens_per_s", metrics.tokens_per_s()}});
  outputs->progress.step(metrics);
  if (metrics.skipped)
    outputs->progress.message(fmt::format("step {}: skipped, {} is not finite", metrics.step,
                                          std::isfinite(metrics.loss) ? "the gradient" : "the loss"));
  if (observer) observer(metrics);
}

void Trainer::State::evaluate() {
  RunProgress& progress = training.progress();
  if (!evaluator || progress.evaluated == progress.step) return;
  const double start = now();
  const Evaluation evaluation = evaluator->evaluate(training.model(), training.runner());
  const EvaluationMetrics metrics{progress.step, evaluation.tokens, evaluation.loss, now() - start};
  progress.evaluated = progress.step;
  progress.val_loss = evaluation.loss;
  if (!std::isfinite(evaluation.loss)) progress.val_loss.reset();
  outputs->metrics.append(to_json(metrics));
  outputs->scalars(metrics.step, {{"val/loss", metrics.val_loss}});
  outputs->progress.evaluation(metrics);
}

void Trainer::State::save() {
  const std::int64_t step = training.progress().step;
  if (saved_step == step) return;
  outputs->metrics.sync();  // a checkpoint's metrics are on the disk before it is
  io::CheckpointWriter writer = store.begin(step);
  training.save(writer);
  writer.commit(facts_json(training.facts()));
  saved_step = step;
}

void Trainer::State::sample() {
  const data::Vocabulary& vocabulary = training.loader().vocabulary();
  if (vocabulary.tokenizer != data::ByteTokenizer::kName) return;  // describe() has said so
  const data::ByteTokenizer tokenizer;
  std::vector<std::int64_t> prompt = tokenizer.encode(config.sample.prompt);
  if (prompt.empty()) prompt.push_back(data::ByteTokenizer::kEndOfText);
  GenerationOptions options;
  options.sampling.temperature = config.sample.temperature;
  options.sampling.seed = static_cast<std::uint64_t>(config.seed);
  options.tokens = config.sample.tokens;
  const std::vector<std::int64_t> ids = generate(training.model(), prompt, options);
  const std::filesystem::path path = folder.sample(training.progress().step);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  TESSERA_CHECK(!error, "cannot create {}: {}", path.parent_path().string(), error.message());
  data::StreamDecoder decoder;  // what a model of bytes makes need not be UTF-8
  std::string text = config.sample.prompt;
  for (const std::int64_t id : ids) text += decoder.push(id);
  write_file(path, text + decoder.finish() + "\n");
}

Summary Trainer::State::summarize() {
  const RunStatistics statistics = read_statistics(folder.metrics());
  Summary summary;
  summary.steps = training.progress().step;
  summary.val_loss = training.progress().val_loss;
  summary.tokens_per_s = statistics.tokens_per_s;
  summary.peak_rss_bytes = std::max(statistics.peak_rss_bytes, peak_rss_bytes());
  summary.intra_bytes_per_step = statistics.intra_bytes_per_step;
  summary.inter_bytes_per_step = statistics.inter_bytes_per_step;
  summary.recipe = describe_recipe(config);
  return summary;
}

TrainResult Trainer::State::finish() {
  evaluate();
  if (config.sample.when != "never") sample();
  save();
  TrainResult result;
  result.summary = summarize();
  write_file(folder.summary(), to_json(result.summary).dump(2) + "\n");
  outputs.reset();
  result.message = fmt::format("done: {} steps", result.summary.steps);
  if (result.summary.val_loss) result.message += fmt::format(", validation loss {:.4f}", *result.summary.val_loss);
  result.message +=
      fmt::format(", {} tokens/s; the run is in {}", format_rate(result.summary.tokens_per_s), folder.root().string());
  return result;
}

TrainResult Trainer::State::interrupted(int signal) {
  save();
  outputs.reset();
  TrainResult result{.outcome = Outcome::kInterrupted, .signal = signal, .message = {}, .summary = summarize()};
  const char* by = signal == SIGINT ? " by Ctrl-C" : signal == SIGTERM ? " by SIGTERM" : "";
  const std::int64_t step = training.progress().step;
  result.message =
      fmt::format("stopped{} after step {} of {}; saved {}. Go on with:\n  tessera train --config {} --resume auto", by,
                  step, config.steps, store.path(step).string(), folder.config().string());
  return result;
}

TrainResult Trainer::State::diverged() {
  outputs.reset();
  TrainResult result{.outcome = Outcome::kDiverged, .signal = 0, .message = {}, .summary = summarize()};
  const std::optional<std::int64_t> latest = store.latest();
  result.message = fmt::format(
      "step {} was the third in a row with a loss or gradient that is not finite; the weights are those before the "
      "three. "
      "{}A lower optimizer.lr, a longer schedule.warmup-steps or clip may help.",
      training.progress().step,
      latest ? fmt::format("The newest checkpoint is {}. ", store.path(*latest).string())
             : "No checkpoint was written. ");
  return result;
}

int TrainResult::exit_code() const {
  switch (outcome) {
    case Outcome::kFinished:
      return 0;
    case Outcome::kInterrupted:
      return signal == 0 ? 0 : 128 + signal;
    case Outcome::kDiverged:
      return 1;
  }
  return 1;
}

Trainer::Trainer(TrainConfig config) : state_(std::make_unique<State>(std::move(config))) {}
Trainer::~Trainer() = default;

std::string Trainer::describe() const {
  State& s = *state_;
  std::string text = describe_run(s.training.facts(), s.training.loader(), at::get_num_threads());
  if (s.checkpoint) text += fmt::format("\nresumed    from {} (step {})", s.checkpoint->path().string(), s.first_step);
  return text;
}

void Trainer::set_observer(std::function<void(const StepMetrics&)> observer) { state_->observer = std::move(observer); }

void Trainer::request_stop() { state_->stop = true; }

TrainResult Trainer::run() {
  State& s = *state_;
  const StopSignals signals;
  s.open_outputs();
  const RunProgress& progress = s.training.progress();
  while (progress.step < s.config.steps) {
    s.step();
    if (progress.skipped_in_a_row >= kSkipsToGiveUp) return s.diverged();
    const bool last = progress.step == s.config.steps;
    if (due(progress.step, s.config.eval.every)) {
      s.evaluate();
      if (s.config.sample.when == "eval" && !last) s.sample();
    }
    if (!last && due(progress.step, s.config.checkpoint.every)) s.save();
    if (!last && (s.stop || signals.received() != 0)) return s.interrupted(signals.received());
  }
  return s.finish();
}

}  // namespace tessera::train
