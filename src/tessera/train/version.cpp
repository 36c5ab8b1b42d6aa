#include "tessera/train/version.h"

namespace tessera::train {

std::string_view version() { return TESSERA_VERSION; }  // from CMake's project()

}  // namespace tessera::train
