#pragma once
// Configuration of a training run, and the one table of its keys. The command line's flags, the TOML reader, --help,
// validation, hints for mistyped keys, the resolved config.toml and the checkpoint's manifest all read this table, so a
// key has one name, one type and one range everywhere: TOML `[model] width = 128` is flag `--model.width 128`.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/data/loader.h"
#include "tessera/quant/recipe.h"

namespace tessera::train {

/// Meaning, default and range of each member: config_keys(), in the order of this struct.
struct TrainConfig {
  std::string out;
  std::string resume = "none";
  std::int64_t steps = 1000;
  std::int64_t batch = 16;
  std::int64_t accumulate = 1;
  std::int64_t seed = 0;
  std::int64_t threads = 0;

  std::string recipe = "w4a8";
  std::string recipe_forward = "recipe", recipe_dx = "recipe", recipe_dw = "recipe";
  std::string w4a8_keep = "int4";
  std::string recipe_warmup = "none", recipe_final = "none";
  double recipe_warmup_fraction = 0.3, recipe_final_fraction = 0.1;
  std::string head = "bf16";
  std::int64_t keep_first = 0, keep_last = 0;
  std::int64_t hadamard_block = 0;
  std::string precision = "fp32";
  bool recompute = false;

  struct Model {
    std::int64_t layers = 4, heads = 4, width = 128, context = 128;
    double dropout = 0;
    bool tie_weights = true, bias = true;
  } model;

  struct Data {
    std::vector<std::string> train;
    std::string validation;
    bool document_boundaries = false, shuffle = true;
  } data;

  struct Optimizer {
    double lr = 1e-3, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  } optimizer;
  struct Schedule {
    std::string name = "cosine";
    std::int64_t warmup_steps = 0;
    double min_lr = 0;
  } schedule;
  double clip = 1;

  struct Eval {
    std::int64_t every = 100, batches = 0;
  } eval;
  struct Checkpoint {
    std::int64_t every = 500, keep = 2;
  } checkpoint;
  struct Log {
    std::int64_t every = 10;
  } log;
  bool tensorboard = false;
  struct Sample {
    std::string when = "end", prompt;
    std::int64_t tokens = 256;
    double temperature = 0.8;
  } sample;
};

/// Where a key's value lives in a TrainConfig; the alternative is the key's type.
using Field = std::variant<bool*, std::int64_t*, double*, std::string*, std::vector<std::string>*>;
enum class KeyType { kFlag, kInteger, kReal, kText, kTexts };  ///< in Field's order

struct Key {
  std::string name;   ///< "model.width"; the part before the dot is the TOML table
  std::string group;  ///< heading in --help
  std::string help;   ///< what it does; the default is not part of it
  Field (*field)(TrainConfig& config) = nullptr;
  std::string placeholder = {};  ///< "N", "PATH", ... in --help; empty for flags
  std::string alias = {};        ///< a second name, or empty
  double least = 0, most = 0;    ///< range of a number, both inclusive but for the next two
  bool above_least = false, below_most = false;
  std::vector<std::string> choices = {};  ///< of a text; empty: any
  bool saved = true;                      ///< part of config.toml and of manifests

  KeyType type() const;
  std::string expectation() const;  ///< "a whole number of at least 1", "one of fp32, bf16"
};

/// All keys, in the order of TrainConfig.
const std::vector<Key>& config_keys();

/// The key with this name or alias; throws Error with the nearest known name. `origin` says where the name stands
/// ("run.toml:12", "command line") and opens the message.
const Key& find_key(std::string_view name, std::string_view origin);

/// Parse and store; throws Error "<origin>: model.width is 'wide', expected a whole number of at least 1". One value
/// but for KeyType::kTexts; a flag takes true or false.
void set_value(TrainConfig& config, const Key& key, std::span<const std::string> values, std::string_view origin);

/// The value as text, strings unquoted, lists joined by a comma and a space.
std::string value_text(const TrainConfig& config, const Key& key);

/// Throws Error for values out of range and combinations that cannot run. Opens no file.
void validate(const TrainConfig& config);

/// The saved keys as a TOML file; reading it gives the same configuration.
std::string config_toml(const TrainConfig& config);

/// {"model.width": 128, ...}: the saved keys.
nlohmann::json config_json(const TrainConfig& config);
/// Throws Error, with `name`, for unknown keys and wrong types; missing keys keep their defaults.
TrainConfig config_from_json(const nlohmann::json& json, std::string_view name);

/// data.train as the loader takes it: "a.tok" or "a.tok:0.5". Throws Error for a weight that is no positive number.
std::vector<data::Source> training_sources(const TrainConfig& config);

/// A stretch of the run in which the blocks have one recipe.
struct RecipePhase {
  std::int64_t first_step = 0;  ///< 0-based; it lasts until the next phase
  quant::Recipe recipe;
};

/// Recipes of the blocks, overrides included, in the order of the run: a warm start, the recipe itself, a final phase,
/// those of no length left out. The first begins at step 0.
std::vector<RecipePhase> recipe_phases(const TrainConfig& config);
/// Recipe of the blocks at step `step`, 0-based; past the end, that of the last step.
quant::Recipe recipe_at(const TrainConfig& config, std::int64_t step);
/// "w4a8", or "int7 for 300 steps, then w4a8".
std::string describe_recipe(const TrainConfig& config);
quant::Recipe head_recipe(const TrainConfig& config);

}  // namespace tessera::train
