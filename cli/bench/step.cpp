#include "bench/step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/interleave.h"
#include "bench/process.h"
#include "bench/step_peer_source.h"
#include "tessera/base/check.h"
#include "tessera/quant/recipe.h"

namespace tessera::cli {
namespace {

constexpr double kLearningRate = 1e-4;  // without warm-up, Adam overshoots at GPT-2's 6e-4 and losses jump

nlohmann::json job_of(const StepModel& model, const StepRun& run) {
  return {
      {"layers", model.layers}, {"heads", model.heads}, {"width", model.width},           {"context", model.context},
      {"batch", model.batch},   {"warmup", run.warmup}, {"vocabulary", model.vocabulary}, {"steps", run.steps},
      {"threads", run.threads}, {"lr", kLearningRate}};
}

bool is_integer(const std::string& recipe) {
  const quant::Product product = quant::Recipe::named(recipe).forward;
  return product != quant::Product::kFp32 && product != quant::Product::kBf16;
}

}  // namespace

std::string StepModel::case_name() const {
  std::string name = fmt::format("{} wide, {} deep,", width, layers);
  for (const char* preset : {"gpt2", "small"}) {
    StepModel same = preset_model(preset);
    same.batch = batch;
    same.context = context;
    if (*this == same) name = preset;
  }
  return fmt::format("{} {}x{}", name, batch, context);
}

double StepModel::block_operations() const {
  // 3 products of QKV, projection, up, down: 12 width^2 weights per layer.
  return 3 * 2.0 * static_cast<double>(tokens()) * static_cast<double>(12 * width * width * layers);
}

double StepModel::head_operations() const {
  return 3 * 2.0 * static_cast<double>(tokens()) * static_cast<double>(width * vocabulary);
}

StepModel preset_model(const std::string& preset) {
  if (preset == "gpt2") return {};
  if (preset == "small") return {4, 4, 128, 64, 256, 12};
  fail("--preset is '{}', expected gpt2 or small", preset);
}

std::string OurStep::name() const {
  return fmt::format("{}, head {}{}", recipe, head, activations == "fp32" ? "" : ", activations " + activations);
}

double OurStep::integer_operations(const StepModel& model) const {
  return (is_integer(recipe) ? model.block_operations() : 0) + (is_integer(head) ? model.head_operations() : 0);
}

const std::vector<std::string>& step_peers() {
  static const std::vector<std::string> all = {"eager-fp32", "eager-bf16", "compile-fp32", "compile-bf16"};
  return all;
}

StepContender our_contender(const OurStep& ours, const StepModel& model, const StepRun& run) {
  nlohmann::json job = job_of(model, run);
  job["recipe"] = ours.recipe;
  job["head"] = ours.head;
  job["activations"] = ours.activations;
  return {ours.name(),
          model,
          run.threads,
          ours.integer_operations(model),
          {"/proc/self/exe", "bench", "step", "--child", job.dump()}};
}

StepContender peer_contender(const std::string& peer, const std::string& python, const StepModel& model,
                             const StepRun& run) {
  TESSERA_CHECK(std::find(step_peers().begin(), step_peers().end(), peer) != step_peers().end(),
                "--peer is '{}', expected none or some of {}", peer, fmt::join(step_peers(), ", "));
  nlohmann::json job = job_of(model, run);
  const std::string mode = peer.substr(0, peer.find('-')), dtype = peer.substr(peer.find('-') + 1);
  job["mode"] = mode;
  job["dtype"] = dtype;
  return {fmt::format("torch {} {}", mode, dtype), model, run.threads, 0, {python, "-c", kStepPeerSource, job.dump()}};
}

double StepResult::median_s() const { return median(step_s); }

StepResult parse_sample(const std::string& name, const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  TESSERA_CHECK(json.is_object(), "{} printed '{}', expected one line of JSON", name, line);
  StepResult sample;
  sample.step_s = json.at("step_s").get<std::vector<double>>();
  sample.peak_rss_bytes = json.at("peak_rss_bytes");
  sample.parts = json.at("parts").get<std::map<std::string, double>>();
  sample.parts_step_s = json.at("parts_step_s");
  for (const auto& loss : json.at("loss"))  // JSON has no number for what is not finite
    TESSERA_CHECK(loss.is_number() && std::isfinite(loss.get<double>()), "{} reached a loss of {}", name, loss.dump());
  sample.first_loss = json["loss"].front();
  sample.last_loss = json["loss"].back();
  return sample;
}

StepResult merge_samples(const std::vector<StepResult>& samples) {
  StepResult all = samples.front();
  std::vector<double> part_steps;
  std::map<std::string, std::vector<double>> parts;
  all.step_s.clear();
  for (const StepResult& sample : samples) {
    all.step_s.insert(all.step_s.end(), sample.step_s.begin(), sample.step_s.end());
    all.peak_rss_bytes = std::max(all.peak_rss_bytes, sample.peak_rss_bytes);
    part_steps.push_back(sample.parts_step_s);
    for (const auto& [part, seconds] : sample.parts) parts[part].push_back(seconds);
  }
  all.parts_step_s = median(part_steps);
  for (const auto& [part, seconds] : parts) all.parts[part] = median(seconds);
  return all;
}

std::string default_python() {
  if (const char* chosen = std::getenv("TESSERA_PYTHON"); chosen != nullptr && *chosen != '\0') return chosen;
  const std::string own = TESSERA_SOURCE_PYTHON;
  return std::filesystem::exists(own) ? own : "python3";
}

std::string check_python(const std::string& python) {
  constexpr const char* kAdvice =
      "name an interpreter that has it with --python or TESSERA_PYTHON, or give --peer none";
  ProcessResult result;
  try {
    result = run_process({python, "-W", "ignore", "-c", "import torch; print(torch.__version__)"});
  } catch (const Error& error) {
    fail("the peers need a Python with torch, but {}; {}", error.what(), kAdvice);
  }
  TESSERA_CHECK(result.status == 0, "{} cannot import torch, which the peers need ({}); {}", python,
                result.err.empty() ? fmt::format("exit code {}", result.status) : last_line(result.err), kAdvice);
  return last_line(result.out);
}

std::vector<StepResult> run_step_contenders(const std::vector<StepContender>& contenders, std::int64_t rounds) {
  std::vector<std::vector<StepResult>> samples(contenders.size());
  for (std::int64_t round = 1; round <= rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      const StepContender& contender = contenders[i];
      const ProcessResult result =
          run_process(contender.command, {{"OMP_NUM_THREADS", std::to_string(contender.threads)}}, {"OPENBLAS_"});
      TESSERA_CHECK(result.status == 0, "the process of {} ended with {} {}: {}", contender.name,
                    result.status < 0 ? "signal" : "exit code", std::abs(result.status), last_line(result.err));
      samples[i].push_back(parse_sample(contender.name, last_line(result.out)));
      fmt::print(stderr, "round {}/{}  {}: {:.4g} s per step\n", round, rounds, contender.name,
                 samples[i].back().median_s());
    }
  std::vector<StepResult> results;
  for (const auto& of_contender : samples) results.push_back(merge_samples(of_contender));
  return results;
}

}  // namespace tessera::cli
