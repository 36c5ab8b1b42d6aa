#pragma once
// Strict reader of the part of TOML that configurations need: comments, [tables], dotted keys, strings, whole numbers,
// real numbers, true and false, arrays of these. What TOML has beyond that (multi-line strings, inline tables, arrays
// of tables, dates, other number bases) is an error that says so; so is everything TOML forbids.
#include <string>
#include <string_view>
#include <vector>

namespace tessera::cli {

enum class TomlType { kText, kInteger, kReal, kFlag };

struct TomlEntry {
  std::string key;  ///< with its tables: "model.width"
  int line = 0;     ///< of the key, from 1
  bool array = false;
  std::vector<std::string> values;  ///< one, or the array's; strings unescaped, numbers without '_' and leading '+'
  std::vector<TomlType> types;      ///< of each value
};

/// Entries in the file's order. Throws Error "<name>:<line>: ..." for the first thing that is wrong.
std::vector<TomlEntry> parse_toml(std::string_view text, const std::string& name);

}  // namespace tessera::cli
