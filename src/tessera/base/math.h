#pragma once
// Integer helpers with teeth.
#include <concepts>
#include <cstdint>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

/// Round the quotient of two non-negative integers up.
template <std::integral T>
constexpr T div_ceil(T a, T b) {
  return (a + b - 1) / b;
}

/// Round `a` up to a multiple of `b`.
template <std::integral T>
constexpr T round_up(T a, T b) {
  return div_ceil(a, b) * b;
}

/// Divide; throw Error when `b` does not divide `a`. `what` names the quantity in the message.
template <std::integral T>
T div_exact(T a, T b, const char* what) {
  TESSERA_CHECK(b > 0 && a % b == 0, "{} is {}, which {} does not divide", what, a, b);
  return a / b;
}

/// Convert between integer types; throw Error when the value does not fit.
template <std::integral To, std::integral From>
To narrow(From value, const char* what) {
  TESSERA_CHECK(std::in_range<To>(value), "{} is {}, which does not fit its type", what, value);
  return static_cast<To>(value);
}

}  // namespace tessera
