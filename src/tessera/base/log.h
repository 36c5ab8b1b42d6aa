#pragma once
// Diagnostics go to stderr, one line each, level by TESSERA_LOG (trace debug info warn error off; default info).
#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace tessera {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
void log_message(LogLevel level, std::string_view message);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  log_message(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tessera
