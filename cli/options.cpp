#include "options.h"

#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <charconv>
#include <cmath>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/nearest_name.h"

namespace tessera::cli {
namespace {

std::string describe(IntegerRange range) {
  const IntegerRange all;
  std::string text = "a whole number";
  if (range.least != all.least && range.most != all.most)
    return fmt::format("{} in {}..{}", text, range.least, range.most);
  if (range.least != all.least) return fmt::format("{} of at least {}", text, range.least);
  if (range.most != all.most) return fmt::format("{} of at most {}", text, range.most);
  return text;
}

std::string describe(RealRange range) {
  if (std::isfinite(range.least) && std::isfinite(range.most))
    return fmt::format("a number in {}..{}", range.least, range.most);
  if (std::isfinite(range.least)) return fmt::format("a number of at least {}", range.least);
  if (std::isfinite(range.most)) return fmt::format("a number of at most {}", range.most);
  return "a number";
}

template <typename T>
bool parse_all(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// The long name as the user types it.
std::string flag_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_name() : "--" + option.get_lnames().front();
}

CLI::Option* add_parsed(CLI::App& app, const std::string& flag, const std::string& text, const std::string& description,
                        const std::function<void(const std::string&)>& parse) {
  return app.add_option_function<std::string>(flag, parse, description)->option_text(text);
}

// "tessera bench gemm"
std::string command_path(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name() : command_path(*app.get_parent()) + " " + app.get_name();
}

const CLI::App& innermost(const CLI::App& app) {
  const auto parsed = const_cast<CLI::App&>(app).get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.front());
}

std::string unknown_argument(const CLI::App& app, std::string argument) {
  if (argument.starts_with("-")) {
    argument = argument.substr(0, argument.find('='));
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options())
      if (option->nonpositional()) known.push_back(flag_name(*option));
    return fmt::format("unknown option '{}'{}; `{} --help` lists them", argument, did_you_mean(argument, known),
                       command_path(app));
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  return fmt::format("unexpected argument '{}'{}; `{} --help` shows the usage", argument,
                     did_you_mean(argument, commands), command_path(app));
}

}  // namespace

std::int64_t parse_integer(std::string_view name, std::string_view text, IntegerRange range) {
  std::int64_t value = 0;
  TESSERA_CHECK(parse_all(text, value) && value >= range.least && value <= range.most, "{} is '{}', expected {}", name,
                text, describe(range));
  return value;
}

double parse_real(std::string_view name, std::string_view text, RealRange range) {
  double value = 0;
  TESSERA_CHECK(parse_all(text, value) && std::isfinite(value) && value >= range.least && value <= range.most,
                "{} is '{}', expected {}", name, text, describe(range));
  return value;
}

CLI::Option* add_integer(CLI::App& app, const std::string& flag, std::int64_t& value, IntegerRange range,
                         const std::string& description) {
  return add_parsed(app, flag, fmt::format("N (default {})", value), description,
                    [&value, flag, range](const std::string& text) { value = parse_integer(flag, text, range); });
}

CLI::Option* add_real(CLI::App& app, const std::string& flag, double& value, RealRange range,
                      const std::string& description) {
  return add_parsed(app, flag, fmt::format("X (default {})", value), description,
                    [&value, flag, range](const std::string& text) { value = parse_real(flag, text, range); });
}

CLI::Option* add_text(CLI::App& app, const std::string& flag, std::string& value, const std::string& placeholder,
                      const std::string& description) {
  const std::string text = value.empty() ? placeholder : fmt::format("{} (default {})", placeholder, value);
  return add_parsed(app, flag, text, description, [&value](const std::string& given) { value = given; });
}

std::string usage_error(const CLI::App& app, const CLI::ParseError& error) {
  // An unknown flag often is the misspelled form of the one that CLI11 then misses, so it is named first.
  const CLI::App& command = innermost(app);
  const std::vector<std::string> left = command.remaining();
  for (const std::string& argument : left)
    if (argument.starts_with("-")) return unknown_argument(command, argument);
  if (!left.empty()) return unknown_argument(command, left.front());
  return fmt::format("{}; `{} --help` shows the usage", error.what(), command_path(command));
}

}  // namespace tessera::cli
