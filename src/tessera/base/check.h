#pragma once
// Errors below the tensor level: a sentence with the offending values, raised before anything is overwritten.
#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

/// What the caller, the user's input or the environment got wrong. The command line turns it into exit code 2.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A mistake of ours: an invariant that no input can break.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// Throw tessera::Error with a formatted sentence.
template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] inline void fail_internal(const char* file, int line, const char* condition) {
  throw InternalError(fmt::format("{}:{}: internal check failed: {}", file, line, condition));
}
}  // namespace detail

}  // namespace tessera

/// TESSERA_CHECK(n > 0, "batch is {}, expected at least 1", n): throws tessera::Error.
#define TESSERA_CHECK(condition, ...) \
  do {                                \
    if (!(condition)) [[unlikely]] {  \
      ::tessera::fail(__VA_ARGS__);   \
    }                                 \
  } while (false)

/// For our own mistakes; active in every build, so keep it out of inner loops.
#define TESSERA_DCHECK(condition)                                       \
  do {                                                                  \
    if (!(condition)) [[unlikely]] {                                    \
      ::tessera::detail::fail_internal(__FILE__, __LINE__, #condition); \
    }                                                                   \
  } while (false)
