#pragma once
#include <string_view>

namespace tessera::train {

/// Of this library, e.g. "0.1.0".
std::string_view version();

}  // namespace tessera::train
