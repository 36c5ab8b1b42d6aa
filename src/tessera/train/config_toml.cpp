// The resolved configuration as TOML.
#include "tessera/base/check.h"
#include "tessera/train/config.h"

namespace tessera::train {
namespace {

// A basic TOML string.
std::string toml_string(const std::string& text) {
  std::string escaped = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      escaped += {'\\', c};
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\t') {
      escaped += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      escaped += fmt::format("\\u{:04X}", byte);
    } else {
      escaped += c;
    }
  }
  return escaped + '"';
}

std::string toml_value(TrainConfig& config, const Key& key) {
  const Field field = key.field(config);
  if (const auto* text = std::get_if<std::string*>(&field)) return toml_string(**text);
  if (const auto* texts = std::get_if<std::vector<std::string>*>(&field)) {
    std::string list = "[";
    for (const std::string& text : **texts) list += (list.size() > 1 ? ", " : "") + toml_string(text);
    return list + "]";
  }
  std::string text = value_text(config, key);
  if (key.type() == KeyType::kReal && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string config_toml(const TrainConfig& config) {
  TrainConfig copy = config;
  // Keys outside tables come first: in TOML, what follows a table's heading belongs to it.
  std::string top = "# As resolved by `tessera train`; keys are those of `tessera train --help`.\n", tables, open;
  for (const Key& key : config_keys()) {
    if (!key.saved) continue;
    const std::size_t dot = key.name.find('.');
    if (dot == std::string::npos) {
      top += fmt::format("{} = {}\n", key.name, toml_value(copy, key));
      continue;
    }
    const std::string table = key.name.substr(0, dot);
    if (table != open) tables += fmt::format("\n[{}]\n", table);
    open = table;
    tables += fmt::format("{} = {}\n", key.name.substr(dot + 1), toml_value(copy, key));
  }
  return top + tables;
}

}  // namespace tessera::train
