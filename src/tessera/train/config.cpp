#include "tessera/train/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/base/nearest_name.h"

namespace tessera::train {
namespace {

using Texts = std::vector<std::string>;

template <typename T>
bool parse_all(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool in_range(const Key& key, double value) {
  return std::isfinite(value) && (key.above_least ? value > key.least : value >= key.least) &&
         (key.below_most ? value < key.most : value <= key.most);
}

// False when `text` is not what the key takes.
bool parse(const Key& key, const std::string& text, Field field) {
  if (auto* flag = std::get_if<bool*>(&field)) {
    **flag = text == "true";
    return text == "true" || text == "false";
  }
  if (auto* integer = std::get_if<std::int64_t*>(&field))
    return parse_all(text, **integer) && in_range(key, static_cast<double>(**integer));
  if (auto* real = std::get_if<double*>(&field)) return parse_all(text, **real) && in_range(key, **real);
  std::string& stored = *std::get<std::string*>(field);
  stored = text;
  return key.choices.empty() || std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
}

// The value of a key as JSON, whose types are those of the table.
nlohmann::json value_json(const TrainConfig& config, const Key& key) {
  TrainConfig& writable = const_cast<TrainConfig&>(config);  // only read through
  return std::visit([](const auto* value) { return nlohmann::json(*value); }, key.field(writable));
}

std::string item_text(const nlohmann::json& json, KeyType type, const Key& key, std::string_view origin) {
  const bool right = (type == KeyType::kFlag && json.is_boolean()) ||
                     (type == KeyType::kInteger && json.is_number_integer()) ||
                     (type == KeyType::kReal && json.is_number()) || (type >= KeyType::kText && json.is_string());
  TESSERA_CHECK(right, "{}: {} is {}, expected {}", origin, key.name, json.dump(), key.expectation());
  return json.is_string() ? json.get<std::string>() : json.dump();
}

}  // namespace

KeyType Key::type() const {
  TrainConfig config;
  return static_cast<KeyType>(field(config).index());
}

std::string Key::expectation() const {
  if (!choices.empty()) return fmt::format("one of {}", fmt::join(choices, ", "));
  switch (type()) {
    case KeyType::kFlag:
      return "true or false";
    case KeyType::kText:
      return "one text";
    case KeyType::kTexts:
      return "one or more texts";
    case KeyType::kInteger:
      if (most > 1e9) return fmt::format("a whole number of at least {}", least);
      return fmt::format("a whole number in {}..{}", static_cast<std::int64_t>(least), static_cast<std::int64_t>(most));
    case KeyType::kReal: {
      std::string text = fmt::format("a number {} {}", above_least ? "above" : "of at least", least);
      if (std::isfinite(most)) text += fmt::format(" and {} {}", below_most ? "below" : "at most", most);
      return text;
    }
  }
  return {};
}

const Key& find_key(std::string_view name, std::string_view origin) {
  Texts known;
  for (const Key& key : config_keys()) {
    if (key.name == name || (!key.alias.empty() && key.alias == name)) return key;
    known.push_back(key.name);
    if (!key.alias.empty()) known.push_back(key.alias);
  }
  fail("{}: unknown key '{}'{}", origin, name, did_you_mean(name, known));
}

void set_value(TrainConfig& config, const Key& key, std::span<const std::string> values, std::string_view origin) {
  if (key.type() == KeyType::kTexts) {
    *std::get<Texts*>(key.field(config)) = Texts(values.begin(), values.end());
    return;
  }
  TrainConfig changed = config;
  TESSERA_CHECK(values.size() == 1 && parse(key, values[0], key.field(changed)), "{}: {} is '{}', expected {}{}",
                origin, key.name, fmt::join(values, " "), key.expectation(),
                values.size() == 1 && !key.choices.empty() ? did_you_mean(values[0], key.choices) : "");
  config = std::move(changed);
}

std::string value_text(const TrainConfig& config, const Key& key) {
  const nlohmann::json json = value_json(config, key);
  switch (key.type()) {
    case KeyType::kText:
      return json.get<std::string>();
    case KeyType::kTexts:
      return fmt::format("{}", fmt::join(json.get<Texts>(), ", "));
    case KeyType::kReal:
      return fmt::format("{}", json.get<double>());
    default:
      return json.dump();
  }
}

namespace {

std::int64_t steps_of(const TrainConfig& config, const std::string& recipe, double fraction) {
  return recipe == "none" ? 0 : std::llround(fraction * static_cast<double>(config.steps));
}

quant::Recipe block_recipe(const TrainConfig& config, const std::string& name) {
  quant::Recipe recipe = quant::Recipe::named(name);
  const std::pair<const char*, const std::string&> products[] = {
      {"forward", config.recipe_forward}, {"dx", config.recipe_dx}, {"dw", config.recipe_dw}};
  for (const auto& [which, product] : products)
    if (product != "recipe") recipe.override_product(which, product);
  recipe.hadamard_block = static_cast<std::int32_t>(config.hadamard_block);
  recipe.set_keep(config.w4a8_keep);
  return recipe;
}

}  // namespace

void validate(const TrainConfig& c) {
  for (const Key& key : config_keys()) {
    TrainConfig copy = c;
    const KeyType type = key.type();
    if (type != KeyType::kTexts)
      TESSERA_CHECK(parse(key, value_text(c, key), key.field(copy)), "{} is '{}', expected {}", key.name,
                    value_text(c, key), key.expectation());
  }
  TESSERA_CHECK(!c.out.empty(), "out is empty, expected the run folder to write (--out DIR)");
  TESSERA_CHECK(!c.data.train.empty(),
                "data.train is empty, expected token files to train on (made by `tessera prepare`)");
  TESSERA_CHECK(!c.resume.empty(), "resume is empty, expected none, auto or the folder of a checkpoint");
  TESSERA_CHECK(c.model.width % c.model.heads == 0, "model.width is {}, which model.heads {} does not divide",
                c.model.width, c.model.heads);
  TESSERA_CHECK(c.keep_first + c.keep_last <= c.model.layers, "keep-first {} and keep-last {} exceed model.layers {}",
                c.keep_first, c.keep_last, c.model.layers);
  TESSERA_CHECK(c.schedule.warmup_steps <= c.steps, "schedule.warmup-steps is {}, more than steps {}",
                c.schedule.warmup_steps, c.steps);
  TESSERA_CHECK(c.schedule.min_lr <= c.optimizer.lr, "schedule.min-lr is {}, above optimizer.lr {}", c.schedule.min_lr,
                c.optimizer.lr);
  TESSERA_CHECK(c.batch <= (std::int64_t{1} << 31) / c.model.context,
                "batch {} x model.context {} is more than 2^31 tokens", c.batch, c.model.context);
  if (c.hadamard_block != 0) quant::hadamard_block_for(c.hadamard_block, static_cast<std::int32_t>(c.hadamard_block));
  const double shares = (c.recipe_warmup == "none" ? 0 : c.recipe_warmup_fraction) +
                        (c.recipe_final == "none" ? 0 : c.recipe_final_fraction);
  TESSERA_CHECK(shares <= 1, "recipe-warmup-fraction {} and recipe-final-fraction {} are more than the whole run",
                c.recipe_warmup_fraction, c.recipe_final_fraction);
  training_sources(c);
  recipe_phases(c);
}

nlohmann::json config_json(const TrainConfig& config) {
  nlohmann::json json = nlohmann::json::object();
  for (const Key& key : config_keys())
    if (key.saved) json[key.name] = value_json(config, key);
  return json;
}

TrainConfig config_from_json(const nlohmann::json& json, std::string_view name) {
  TESSERA_CHECK(json.is_object(), "{}: the configuration is no JSON object", name);
  TrainConfig config;
  for (const auto& [key_name, value] : json.items()) {
    const Key& key = find_key(key_name, name);
    const KeyType type = key.type();
    Texts texts;
    if (type == KeyType::kTexts) {
      TESSERA_CHECK(value.is_array(), "{}: {} is {}, expected {}", name, key.name, value.dump(), key.expectation());
      for (const auto& item : value) texts.push_back(item_text(item, type, key, name));
    } else {
      texts.push_back(item_text(value, type, key, name));
    }
    set_value(config, key, texts, name);
  }
  return config;
}

std::vector<data::Source> training_sources(const TrainConfig& config) {
  std::vector<data::Source> sources;
  for (const std::string& entry : config.data.train) {
    data::Source source{entry, 1};
    const std::size_t colon = entry.rfind(':');
    if (colon != std::string::npos && entry.find('/', colon) == std::string::npos) {
      source.path = entry.substr(0, colon);
      TESSERA_CHECK(parse_all(std::string_view(entry).substr(colon + 1), source.weight) &&
                        std::isfinite(source.weight) && source.weight > 0,
                    "data.train has '{}', expected a positive number after the colon", entry);
    }
    TESSERA_CHECK(!source.path.empty(), "data.train has '{}', which names no file", entry);
    sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<RecipePhase> recipe_phases(const TrainConfig& config) {
  const std::int64_t main = steps_of(config, config.recipe_warmup, config.recipe_warmup_fraction);
  const std::int64_t final = config.steps - steps_of(config, config.recipe_final, config.recipe_final_fraction);
  std::vector<RecipePhase> phases;
  if (main > 0) phases.push_back({0, block_recipe(config, config.recipe_warmup)});
  if (main < final || phases.empty()) phases.push_back({main, block_recipe(config, config.recipe)});
  if (final < config.steps) phases.push_back({final, block_recipe(config, config.recipe_final)});
  return phases;
}

quant::Recipe recipe_at(const TrainConfig& config, std::int64_t step) {
  const std::vector<RecipePhase> phases = recipe_phases(config);
  quant::Recipe recipe = phases[0].recipe;
  for (const RecipePhase& phase : phases)
    if (phase.first_step <= step) recipe = phase.recipe;
  return recipe;
}

std::string describe_recipe(const TrainConfig& config) {
  const std::vector<RecipePhase> phases = recipe_phases(config);
  std::string text = phases[0].recipe.describe();
  for (std::size_t i = 1; i < phases.size(); ++i) {
    const std::int64_t steps = phases[i].first_step - phases[i - 1].first_step;
    text += fmt::format(" for {} step{}, then {}", steps, steps == 1 ? "" : "s", phases[i].recipe.describe());
  }
  return text;
}

quant::Recipe head_recipe(const TrainConfig& config) {
  quant::Recipe recipe = quant::Recipe::named(config.head);
  recipe.hadamard_block = static_cast<std::int32_t>(config.hadamard_block);
  return recipe;
}

}  // namespace tessera::train
