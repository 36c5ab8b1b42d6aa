#include "tessera/train/describe.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/isa.h"
#include "tessera/data/tokenizer.h"
#include "tessera/train/progress.h"
#include "tessera/train/version.h"

namespace tessera::train {
namespace {

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return fmt::format("{:.2f} GB", value / 1e9);
  return fmt::format("{:.1f} MB", value / 1e6);
}

std::string recipe_text(const ModelFacts& facts) {
  const nn::GptOptions& o = facts.options;
  std::string text = fmt::format("{}, head {}", describe_recipe(facts.config), o.head.describe());
  if (o.keep_first > 0) text += fmt::format(", first {} blocks bf16", o.keep_first);
  if (o.keep_last > 0) text += fmt::format(", last {} blocks bf16", o.keep_last);
  return text + fmt::format(", activations {}{}", facts.config.precision, facts.config.recompute ? ", recomputed" : "");
}

}  // namespace

// A block keeps, per token of width D: the residual stream at both norms (fp32), queries, keys, values, attention's
// result and the MLP's input to GELU (8 D activations), and its four products' inputs (7 D elements in the form that
// dW multiplies).
MemoryEstimate estimate_memory(const ModelFacts& facts) {
  const TrainConfig& c = facts.config;
  const quant::Recipe& recipe = facts.options.recipe;
  const double activation = c.precision == "bf16" ? 2 : 4;
  const bool bytes = recipe.dw == quant::Product::kInt8 || recipe.dw == quant::Product::kInt7;
  const double saved = quant::uses_int4(recipe.dw)          ? 0.5 + 0.125  // packed codes, trust mask
                       : bytes                              ? 1
                       : recipe.dw == quant::Product::kBf16 ? 2
                                                            : activation;
  const auto tokens = static_cast<double>(c.batch * c.model.context), width = static_cast<double>(c.model.width);
  const double block = tokens * width * (2 * 4 + 8 * activation + 7 * saved), residual = tokens * width * 4;
  const auto layers = static_cast<double>(c.model.layers);
  MemoryEstimate estimate;
  estimate.parameter_bytes = 16 * facts.parameters;
  estimate.activation_bytes = static_cast<std::int64_t>(c.recompute ? layers * residual + block : layers * block);
  return estimate;
}

std::string describe_run(const ModelFacts& facts, const data::Loader& loader, int threads) {
  const TrainConfig& c = facts.config;
  const MemoryEstimate memory = estimate_memory(facts);
  const std::int64_t per_step = c.batch * c.accumulate * c.model.context;
  std::string text =
      fmt::format("tessera    {}, ISA {}, {} thread{}\n", version(), describe_isa(), threads, threads == 1 ? "" : "s");
  text += fmt::format("model      gpt, {} parameters: {} layers, width {}, {} heads, context {}, vocabulary {}\n",
                      format_rate(static_cast<double>(facts.parameters)), c.model.layers, c.model.width, c.model.heads,
                      c.model.context, facts.vocabulary.size);
  text += fmt::format("recipe     {}\n", recipe_text(facts));
  text += fmt::format("memory     {} of weights, gradients and optimizer state; about {} of activations\n",
                      bytes_text(memory.parameter_bytes), bytes_text(memory.activation_bytes));
  text += fmt::format(
      "data       {} tokens in {} file{}; {} tokens per step, {:.1f} epochs in {} steps", loader.tokens(),
      facts.data.size(), facts.data.size() == 1 ? "" : "s", per_step,
      static_cast<double>(per_step) * static_cast<double>(c.steps) / static_cast<double>(loader.tokens()), c.steps);
  if (c.sample.when != "never" && facts.vocabulary.tokenizer != data::ByteTokenizer::kName)
    text += fmt::format("\nsamples    none: tokenizer '{}' is not known here", facts.vocabulary.tokenizer);
  return text;
}

}  // namespace tessera::train
