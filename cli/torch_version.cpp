#include <torch/version.h>

#include "version.h"

namespace tessera::cli {

std::string torch_version() { return TORCH_VERSION; }

}  // namespace tessera::cli
