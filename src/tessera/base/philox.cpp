#include "tessera/base/philox.h"

#include <xxhash.h>

namespace tessera {

PhiloxKey philox_key(std::uint64_t seed, std::string_view name, std::string_view role) {
  const std::uint64_t inner = XXH64(name.data(), name.size(), seed);
  const std::uint64_t hash = XXH64(role.data(), role.size(), inner);
  return {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)};
}

}  // namespace tessera
