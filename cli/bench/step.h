#pragma once
// tessera bench step: one training step of a GPT-2 by our recipes and by PyTorch, each contender a process of its own.
//
// A contender's process does `warmup` steps, then `steps` timed ones on random tokens, the same for all. Rounds
// A B C A B C ...: only one process runs at a time, and a machine whose speed drifts slows all alike.
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/report.h"

namespace tessera::cli {

/// Tied embedding, biases, no dropout.
struct StepModel {
  std::int64_t layers = 12, heads = 12, width = 768, context = 1024, vocabulary = 50257, batch = 4;

  std::int64_t tokens() const { return batch * context; }
  /// "gpt2 4x1024", or "64 wide, 2 deep, 4x1024" for a model that is no preset.
  std::string case_name() const;
  /// 2 x multiply-accumulates of one step: forward, dX and dW of the blocks' linear layers, and of the head.
  double block_operations() const;
  double head_operations() const;
  bool operator==(const StepModel&) const = default;
};

/// "gpt2": 124M parameters, 4 x 1024 tokens; "small": 4 layers of 128, 12 x 64 tokens. Error for any other name.
StepModel preset_model(const std::string& preset);

/// How long each contender runs, and on how many threads.
struct StepRun {
  std::int64_t warmup = 1, steps = 2, rounds = 3, threads = 1;
};

/// One of ours: recipe of the blocks, recipe of the head, activations between layers ("fp32" or "bf16").
struct OurStep {
  std::string recipe, head, activations;
  std::string name() const;  ///< "w4a8, head bf16, activations bf16"; fp32 activations go without saying
  /// Operations of a step that are integer products.
  double integer_operations(const StepModel& model) const;
};

/// "eager-fp32", "eager-bf16", "compile-fp32", "compile-bf16"
const std::vector<std::string>& step_peers();

struct StepContender {
  std::string name;  ///< as tables show it
  StepModel model;
  std::int64_t threads = 1;
  double integer_operations = 0;       ///< of a step; 0 for peers
  std::vector<std::string> command{};  ///< of its process
};
StepContender our_contender(const OurStep& ours, const StepModel& model, const StepRun& run);
/// `python` is the interpreter. Error: not one of step_peers().
StepContender peer_contender(const std::string& peer, const std::string& python, const StepModel& model,
                             const StepRun& run);

/// What a contender's processes measured, all rounds together.
struct StepResult {
  std::vector<double> step_s{};
  double first_loss = 0, last_loss = 0;  ///< nats per token, of the timed steps
  std::int64_t peak_rss_bytes = 0;
  std::map<std::string, double> parts{};  ///< median seconds per step; empty for peers
  double parts_step_s = 0;                ///< median seconds of a step whose parts were timed

  double median_s() const;
};
/// What one process printed. Error, which names the contender: anything but its line of JSON, or a loss that is not
/// finite.
StepResult parse_sample(const std::string& name, const std::string& line);
/// All times together, medians of the parts, the largest memory; losses are every round's.
StepResult merge_samples(const std::vector<StepResult>& samples);

/// Error, with the interpreter and how to choose another: it cannot import torch. Returns torch's version.
std::string check_python(const std::string& python);
/// $TESSERA_PYTHON, else the source tree's .venv/bin/python where there is one, else python3.
std::string default_python();

/// Run all contenders in turns; one line on stderr for each process. Error: a process fails.
std::vector<StepResult> run_step_contenders(const std::vector<StepContender>& contenders, std::int64_t rounds);

/// Ratios of every one of ours to every peer.
std::vector<BenchRow> step_rows(const std::vector<StepContender>& ours, const std::vector<StepResult>& our_results,
                                const std::vector<StepContender>& peers, const std::vector<StepResult>& peer_results);
/// Speed, memory and loss; then, for ours, parts and distance to `peak` operations per second (0: unknown).
void print_step_results(const std::vector<StepContender>& contenders, const std::vector<StepResult>& results,
                        double peak);
/// {bench: "step contender", case, name, threads, median_s, step_s, tokens_per_s, peak_rss_bytes, first_loss,
/// last_loss}, and for ours parts {name: seconds}, parts_step_s, integer_operations, peak_operations_per_s, peak_share.
nlohmann::ordered_json step_results_json(const std::vector<StepContender>& contenders,
                                         const std::vector<StepResult>& results, double peak);

/// The process of one of ours: `job` as our_contender() writes it. Prints one line of JSON.
int run_step_child(const std::string& job);

}  // namespace tessera::cli
