#include "bench/step_command.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/huge_pages.h"
#include "bench/step.h"
#include "options.h"
#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/quant/recipe.h"

namespace tessera::cli {
namespace {

struct StepArguments {
  std::string preset = "gpt2", python, json, child;
  std::vector<std::string> recipes, heads, activations, peers;
  StepModel model{0, 0, 0, 0, 0, 0};  // 0: as the preset says
  StepRun run{.warmup = 1, .steps = 0, .rounds = 3, .threads = 0};
  bool grow = false;
};

// What the user left open.
void fill_in(StepArguments& arguments) {
  const StepModel preset = preset_model(arguments.preset);
  StepModel& model = arguments.model;
  for (const auto size : {&StepModel::layers, &StepModel::heads, &StepModel::width, &StepModel::context,
                          &StepModel::vocabulary, &StepModel::batch})
    if (model.*size == 0) model.*size = preset.*size;
  TESSERA_CHECK(model.width % model.heads == 0, "--width is {}, which --heads {} does not divide", model.width,
                model.heads);
  if (arguments.run.steps == 0) arguments.run.steps = arguments.preset == "small" ? 50 : 2;
  if (arguments.recipes.empty())
    for (const std::string& name : quant::Recipe::names())
      if (name != "fp32" && name != "bf16" && name != "int8") arguments.recipes.push_back(name);
  if (arguments.heads.empty()) arguments.heads = {"bf16"};
  if (arguments.activations.empty()) arguments.activations = {"fp32"};
  if (arguments.peers.empty()) arguments.peers = step_peers();
  if (std::find(arguments.peers.begin(), arguments.peers.end(), "none") != arguments.peers.end()) {
    TESSERA_CHECK(arguments.peers.size() == 1, "--peer none excludes every other --peer");
    arguments.peers.clear();
  }
  if (arguments.python.empty()) arguments.python = default_python();
}

// Every combination; an unknown name is an error before anything is measured.
std::vector<OurStep> our_steps(const StepArguments& arguments) {
  std::vector<OurStep> all;
  for (const std::string& recipe : arguments.recipes)
    for (const std::string& head : arguments.heads)
      for (const std::string& activations : arguments.activations) {
        quant::Recipe::named(recipe);
        quant::Recipe::named(head);
        TESSERA_CHECK(activations == "fp32" || activations == "bf16", "--activations is '{}', expected fp32 or bf16",
                      activations);
        all.push_back({recipe, head, activations});
      }
  return all;
}

int run_step(StepArguments arguments) {
  fill_in(arguments);
  const std::vector<OurStep> steps = our_steps(arguments);
  for (const std::string& peer : arguments.peers)
    peer_contender(peer, arguments.python, arguments.model, arguments.run);
  restart_with_huge_pages();
  const std::string torch = arguments.peers.empty() ? "" : check_python(arguments.python);
  arguments.run.threads = use_threads(arguments.run.threads);
  const BenchSetting setting = describe_setting(arguments.run.threads);
  print_setting(setting);
  if (!torch.empty()) fmt::print("peers: torch {} of {}\n", torch, arguments.python);
  std::fflush(stdout);  // what follows takes minutes

  std::vector<StepContender> ours, peers;
  for (const OurStep& step : steps) ours.push_back(our_contender(step, arguments.model, arguments.run));
  for (const std::string& peer : arguments.peers)
    peers.push_back(peer_contender(peer, arguments.python, arguments.model, arguments.run));
  std::vector<StepContender> all = ours;
  all.insert(all.end(), peers.begin(), peers.end());
  const std::vector<StepResult> results = run_step_contenders(all, arguments.run.rounds);
  const auto middle = results.begin() + static_cast<std::ptrdiff_t>(ours.size());
  const std::vector<BenchRow> rows = step_rows(ours, {results.begin(), middle}, peers, {middle, results.end()});
  print_step_results(all, results, setting.peak_operations);
  if (!rows.empty()) print_rows(rows);
  if (!arguments.json.empty()) {
    nlohmann::ordered_json json = step_results_json(all, results, setting.peak_operations);
    for (const auto& row : rows_json(rows)) json.push_back(row);
    write_file(arguments.json, json.dump(2) + "\n");
  }
  return kExitOk;
}

// Ours alone, as the machine and each size of the problem grow; the first recipe.
int run_grow(StepArguments arguments) {
  fill_in(arguments);
  const OurStep step = our_steps(arguments).front();
  restart_with_huge_pages();
  const std::int64_t threads = arguments.run.threads = use_threads(arguments.run.threads);
  const BenchSetting setting = describe_setting(threads);
  print_setting(setting);
  std::fflush(stdout);
  std::vector<StepContender> contenders;
  const auto add = [&](const std::string& name, const StepModel& model, std::int64_t with_threads) {
    StepRun run = arguments.run;
    run.threads = with_threads;
    contenders.push_back(our_contender(step, model, run));
    contenders.back().name = step.name() + ": " + name;
  };
  const auto grown = [&](auto change) {
    StepModel model = arguments.model;
    change(model);
    return model;
  };
  add("as given", arguments.model, threads);
  if (threads != 1) add("1 thread", arguments.model, 1);
  if (threads != 2) add("2 threads", arguments.model, 2);
  add("twice the batch", grown([](StepModel& m) { m.batch *= 2; }), threads);
  add("twice the width and heads", grown([](StepModel& m) { m.width *= 2, m.heads *= 2; }), threads);
  add("twice the layers", grown([](StepModel& m) { m.layers *= 2; }), threads);
  add("twice the context", grown([](StepModel& m) { m.context *= 2; }), threads);
  const std::vector<StepResult> results = run_step_contenders(contenders, arguments.run.rounds);
  print_step_results(contenders, results, setting.peak_operations);
  if (!arguments.json.empty())
    write_file(arguments.json, step_results_json(contenders, results, setting.peak_operations).dump(2) + "\n");
  return kExitOk;
}

// The preset's value is 0 inside; the range starts above it, so nobody can ask for it by accident.
void add_size(CLI::App& app, const char* flag, std::int64_t& value, std::int64_t least, const char* description) {
  add_integer(app, flag, value, {.least = least, .most = 1 << 20}, description)
      ->option_text("N (default: the preset's)");
}

void add_names(CLI::App& app, const char* flag, std::vector<std::string>& values, const char* text,
               const char* description) {
  app.add_option(flag, values, description)->option_text(text);
}

}  // namespace

void declare_bench_step(CLI::App& bench, const std::shared_ptr<Action>& action) {
  auto arguments = std::make_shared<StepArguments>();
  StepArguments& a = *arguments;
  CLI::App* step = bench.add_subcommand("step", "a GPT-2 training step beside PyTorch's, each in its own process")
                       ->group("Benchmarks");
  add_text(*step, "--preset", a.preset, "NAME", "gpt2: 124M, 4 x 1024 tokens; small: 4 layers of 128, 12 x 64 tokens");
  add_size(*step, "--layers", a.model.layers, 1, "blocks");
  add_size(*step, "--heads", a.model.heads, 1, "attention heads; must divide the width");
  add_size(*step, "--width", a.model.width, 1, "features of the residual stream");
  add_size(*step, "--context", a.model.context, 1, "tokens of a sequence");
  add_size(*step, "--vocabulary", a.model.vocabulary, 2, "token ids");
  add_size(*step, "--batch", a.model.batch, 1, "sequences of a step");
  add_names(*step, "--recipe", a.recipes, "NAME ... (default all with INT4 weights)", "recipes of the blocks");
  add_names(*step, "--head", a.heads, "NAME ... (default bf16)", "recipes of the output head");
  add_names(*step, "--activations", a.activations, "fp32|bf16 ... (default fp32)",
            "between our layers, as train's --precision");
  add_names(*step, "--peer", a.peers, "NAME ... (default all four)",
            "eager-fp32, eager-bf16, compile-fp32, compile-bf16; none: ours only");
  add_text(*step, "--python", a.python, "FILE (default $TESSERA_PYTHON, .venv of the sources, python3)",
           "interpreter of the peers; needs torch");
  add_integer(*step, "--warmup", a.run.warmup, {.least = 0, .most = 100000},
              "steps of a process before the timed ones");
  add_integer(*step, "--steps", a.run.steps, {.least = 1, .most = 100000}, "timed steps of a process")
      ->option_text("N (default 2; small: 50)");
  add_integer(*step, "--rounds", a.run.rounds, {.least = 1, .most = 100000}, "processes of each contender, in turns");
  add_integer(*step, "--threads", a.run.threads, {.least = 0, .most = 4096},
              "threads of ours and peers; 0: as torch chooses");
  step->add_flag("--grow", a.grow, "no peers: ours with 1 and 2 threads, and with each size doubled");
  add_text(*step, "--json", a.json, "FILE", "write contenders and rows of ratios");
  add_text(*step, "--child", a.child, "JOB", "")->group("");  // how the program calls itself for one contender
  step->callback([=] {
    *action = [=] {
      if (!arguments->child.empty()) return run_step_child(arguments->child);
      return arguments->grow ? run_grow(*arguments) : run_step(*arguments);
    };
  });
}

}  // namespace tessera::cli
