#pragma once
#include <string>

namespace tessera::cli {

/// Version of the LibTorch that this program was built with.
std::string torch_version();

}  // namespace tessera::cli
