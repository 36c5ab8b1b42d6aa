// One of our contenders of `tessera bench step`, in a process of its own: the trainer's step without its files.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "bench/benches.h"
#include "bench/step.h"
#include "command.h"
#include "tessera/base/memory.h"
#include "tessera/base/part_timers.h"
#include "tessera/nn/local_runner.h"
#include "tessera/nn/models/gpt.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/grad_clip.h"
#include "tessera/train/metrics.h"
#include "tessera/train/model_io.h"

namespace tessera::cli {
namespace {

using nlohmann::json;

constexpr std::uint64_t kSeed = 1;
constexpr double kMaxNorm = 1;
constexpr std::int64_t kMostTimedParts = 5;  // steps with part timers, at most

// splitmix64 of the index; step_peer.py draws the same.
std::int64_t random_token(std::uint64_t index, std::int64_t vocabulary) {
  std::uint64_t z = (index + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return static_cast<std::int64_t>((z ^ (z >> 31)) % static_cast<std::uint64_t>(vocabulary));
}

nn::GptOptions model_options(const json& job) {
  nn::GptOptions options;
  options.vocabulary = job.at("vocabulary");
  options.context = job.at("context");
  options.layers = job.at("layers");
  options.heads = job.at("heads");
  options.width = job.at("width");
  options.recipe = quant::Recipe::named(job.at("recipe").get<std::string>());
  options.head = quant::Recipe::named(job.at("head").get<std::string>());
  options.activations = job.at("activations") == "bf16" ? torch::kBFloat16 : torch::kFloat32;
  return options;
}

nn::TokenBatch random_batch(const json& job) {
  const std::int64_t batch = job.at("batch"), row = job.at("context").get<std::int64_t>() + 1;
  const torch::Tensor tokens = torch::empty({batch, row}, torch::kInt64);
  auto* ids = tokens.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < batch * row; ++i)
    ids[i] = random_token(static_cast<std::uint64_t>(i), job.at("vocabulary"));
  return {tokens.narrow(1, 0, row - 1).contiguous(), tokens.narrow(1, 1, row - 1).contiguous(), {}};
}

class TrainingStep {
 public:
  explicit TrainingStep(const json& job)
      : lr_(job.at("lr")),
        batch_(random_batch(job)),
        model_(model_options(job), kSeed),
        parameters_(train::named_parameters(model_)),
        optimizer_({}, parameter_infos()) {}

  /// Returns the loss.
  double run() {
    for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
    nn::UnitContext context;
    context.noise = {kSeed, step_++, 0};
    context.training = true;
    const torch::Tensor loss = model_->loss(batch_, runner_, context);
    loss.backward();
    update();
    return loss.item<double>();
  }

 private:
  std::vector<optim::ParameterInfo> parameter_infos() const {
    std::vector<optim::ParameterInfo> infos;
    for (const auto& [name, tensor] : parameters_)
      infos.push_back({name, tensor.numel(), optim::decays({tensor.sizes().data(), tensor.sizes().size()})});
    return infos;
  }

  void update() {
    std::vector<torch::Tensor> gradients;  // keeps what contiguous() may have made
    std::vector<std::span<const float>> spans;
    std::vector<optim::Parameter> updates;
    for (const auto& [name, parameter] : parameters_) {
      gradients.push_back(parameter.grad().contiguous());
      const auto size = static_cast<std::size_t>(parameter.numel());
      spans.emplace_back(gradients.back().const_data_ptr<float>(), size);
      updates.push_back({name, {parameter.mutable_data_ptr<float>(), size}, spans.back()});
    }
    optim::Clip clip;
    {
      const ScopedPart part(Part::kGradientNorm);
      clip = optim::clip(optim::sum_of_squares(spans), kMaxNorm);
    }
    const ScopedPart part(Part::kOptimizer);
    optimizer_.step(updates, lr_, clip.scale);
    train::mark_changed(model_);
  }

  float lr_;
  nn::TokenBatch batch_;
  nn::Gpt model_;
  nn::LocalRunner runner_;
  std::vector<std::pair<std::string, torch::Tensor>> parameters_;
  optim::AdamW optimizer_;
  std::uint32_t step_ = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Parts of a step, seconds each, and the step they belong to; in steps of their own, so that those that count pay
// nothing for it.
void time_parts(TrainingStep& step, std::int64_t steps, json& line) {
  enable_part_timers(true);
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < steps; ++i) step.run();
  const double step_s = seconds_since(start) / static_cast<double>(steps);
  enable_part_timers(false);
  double rest = step_s;
  const PartSeconds seconds = part_seconds();
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const double mean = seconds[i] / static_cast<double>(steps);
    line["parts"][part_name(static_cast<Part>(i))] = mean;
    rest -= mean;
  }
  line["parts"]["autograd and rest"] = rest;
  line["parts_step_s"] = step_s;
}

}  // namespace

int run_step_child(const std::string& text) {
  keep_freed_memory();  // as `tessera train`
  const json job = json::parse(text);
  use_threads(job.at("threads"));
  TrainingStep step(job);
  const std::int64_t warmup = job.at("warmup"), steps = job.at("steps");
  for (std::int64_t i = 0; i < warmup; ++i) step.run();
  json line;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    line["loss"].push_back(step.run());
    line["step_s"].push_back(seconds_since(start));
  }
  line["peak_rss_bytes"] = train::peak_rss_bytes();
  time_parts(step, std::min(steps, kMostTimedParts), line);
  fmt::print("{}\n", line.dump());
  return kExitOk;
}

}  // namespace tessera::cli
