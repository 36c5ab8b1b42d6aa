#pragma once
// XXH3-64, the checksum of every file of ours.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera {

/// Checksum of a byte range.
std::uint64_t xxh3(std::span<const std::byte> bytes);

/// The same, fed piece by piece.
class Checksum {
 public:
  Checksum();
  void update(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct Free {
    void operator()(void* state) const noexcept;
  };
  std::unique_ptr<void, Free> state_;
};

/// A checksum as 16 lower-case hexadecimal digits.
std::string checksum_text(std::uint64_t checksum);

}  // namespace tessera
