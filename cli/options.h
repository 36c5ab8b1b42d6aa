#pragma once
// Typed options on a CLI11 app. A wrong value is a tessera::Error that names the flag, the value and what is expected.
#include <CLI/App.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace tessera::cli {

struct IntegerRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};
struct RealRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

/// Parse all of `text`; throws Error "<name> is '<text>', expected ...".
std::int64_t parse_integer(std::string_view name, std::string_view text, IntegerRange range);
double parse_real(std::string_view name, std::string_view text, RealRange range);

/// Declare `--flag VALUE`. `value` holds the default, which the help shows after `placeholder`.
CLI::Option* add_integer(CLI::App& app, const std::string& flag, std::int64_t& value, IntegerRange range,
                         const std::string& description);
CLI::Option* add_real(CLI::App& app, const std::string& flag, double& value, RealRange range,
                      const std::string& description);
CLI::Option* add_text(CLI::App& app, const std::string& flag, std::string& value, const std::string& placeholder,
                      const std::string& description);

/// Turn what CLI11 threw into one sentence, with the nearest known flag for an unknown one.
std::string usage_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tessera::cli
