#include "train_options.h"

#include <CLI/Option.hpp>
#include <memory>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "toml.h"

namespace tessera::cli {
namespace {

using train::Key;
using train::KeyType;
using train::TrainConfig;

bool fits(TomlType type, KeyType wanted) {
  switch (wanted) {
    case KeyType::kFlag:
      return type == TomlType::kFlag;
    case KeyType::kInteger:
      return type == TomlType::kInteger;
    case KeyType::kReal:
      return type == TomlType::kReal || type == TomlType::kInteger;
    case KeyType::kText:
    case KeyType::kTexts:
      return type == TomlType::kText;
  }
  return false;
}

std::string as_written(const TomlEntry& entry) {
  std::string text;
  for (std::size_t i = 0; i < entry.values.size(); ++i)
    text += (i > 0 ? ", " : "") +
            (entry.types[i] == TomlType::kText ? fmt::format("\"{}\"", entry.values[i]) : entry.values[i]);
  return entry.array ? "[" + text + "]" : text;
}

struct Given {
  std::string config_file;
  std::vector<std::pair<const Key*, std::vector<std::string>>> flags;
};

void add_key(CLI::App& app, const Key& key, const std::shared_ptr<Given>& given) {
  const TrainConfig defaults;
  const bool flag = key.type() == KeyType::kFlag, list = key.type() == KeyType::kTexts;
  const std::string value = train::value_text(defaults, key);
  std::string text = flag ? "[=true|false]" : key.placeholder;
  if (!value.empty()) text += fmt::format(" (default {})", value);
  const std::string names = "--" + key.name + (key.alias.empty() ? "" : ",--" + key.alias);
  CLI::Option* option = app.add_option_function<std::vector<std::string>>(
      names, [given, &key](const std::vector<std::string>& values) { given->flags.emplace_back(&key, values); },
      key.help);
  option->group(key.group)->option_text(text)->allow_extra_args(list);
  if (flag) {
    option->expected(0, 1)->default_str("true");
  } else {
    option->expected(1, list ? 1 << 20 : 1);
  }
}

}  // namespace

void apply_toml(TrainConfig& config, std::string_view text, const std::string& name) {
  for (const TomlEntry& entry : parse_toml(text, name)) {
    const std::string origin = fmt::format("{}:{}", name, entry.line);
    const Key& key = train::find_key(entry.key, origin);
    bool right = entry.array == (key.type() == KeyType::kTexts);
    for (const TomlType type : entry.types) right = right && fits(type, key.type());
    TESSERA_CHECK(right, "{}: {} is {}, expected {}", origin, entry.key, as_written(entry),
                  key.type() == KeyType::kTexts ? "an array of texts" : key.expectation());
    train::set_value(config, key, entry.values, origin);
  }
}

std::function<TrainConfig()> declare_train_options(CLI::App& app) {
  auto given = std::make_shared<Given>();
  app.add_option("--config", given->config_file, "TOML file with any of the keys below; flags override it")
      ->option_text("FILE");
  for (const Key& key : train::config_keys()) add_key(app, key, given);
  return [given] {
    TrainConfig config;
    if (!given->config_file.empty()) apply_toml(config, read_file(given->config_file), given->config_file);
    for (const auto& [key, values] : given->flags) train::set_value(config, *key, values, "command line");
    return config;
  };
}

}  // namespace tessera::cli
