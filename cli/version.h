#pragma once
// What `tessera --version` says.
#include <string>

namespace tessera::cli {

inline constexpr const char* kVersion = TESSERA_VERSION;  // from CMake's project()

/// Version of the LibTorch in this process.
std::string torch_version();

}  // namespace tessera::cli
