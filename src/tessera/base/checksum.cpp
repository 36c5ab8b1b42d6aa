#include "tessera/base/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace tessera {
namespace {

XXH3_state_t* as_state(void* state) { return static_cast<XXH3_state_t*>(state); }

}  // namespace

std::uint64_t xxh3(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void Checksum::Free::operator()(void* state) const noexcept { XXH3_freeState(as_state(state)); }

Checksum::Checksum() : state_(XXH3_createState()) {
  if (!state_) {
    throw std::bad_alloc();
  }
  XXH3_64bits_reset(as_state(state_.get()));
}

void Checksum::update(std::span<const std::byte> bytes) {
  XXH3_64bits_update(as_state(state_.get()), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(as_state(state_.get())); }

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

}  // namespace tessera
