#include "tessera/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera::train {
namespace {

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}();

template <typename T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  return bytes;
}

// Protobuf's wire format: a field is its number and wire type, then a varint (0), 8 bytes (1), length and bytes (2) or
// 4 bytes (5).
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
std::string tag_of(unsigned field, unsigned wire_type) { return varint(field << 3 | wire_type); }
std::string int64_field(unsigned field, std::int64_t value) {
  return tag_of(field, 0) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(unsigned field, double value) {
  return tag_of(field, 1) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string bytes_field(unsigned field, std::string_view bytes) {
  return tag_of(field, 2) + varint(bytes.size()) + std::string(bytes);
}
std::string float_field(unsigned field, float value) {
  return tag_of(field, 5) + little_endian(std::bit_cast<std::uint32_t>(value));
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const char c : bytes) crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ (crc >> 8);
  return crc ^ 0xffffffffu;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

std::string tensorboard_record(std::string_view payload) {
  const std::string length = little_endian(std::uint64_t{payload.size()});
  return length + little_endian(masked_crc32c(length)) + std::string(payload) + little_endian(masked_crc32c(payload));
}

std::string version_event(double wall_time) { return double_field(1, wall_time) + bytes_field(3, "brain.Event:2"); }

std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value) {
  const std::string entry = bytes_field(1, tag) + float_field(2, value);
  return double_field(1, wall_time) + int64_field(2, step) + bytes_field(5, bytes_field(1, entry));
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  TESSERA_CHECK(!error, "cannot create {}: {}", directory.string(), error.message());
  char host[256] = "localhost";
  if (::gethostname(host, sizeof(host) - 1) != 0) std::strcpy(host, "localhost");
  const double start = now();
  path_ = directory / fmt::format("events.out.tfevents.{:.6f}.{}.{}", start, host, ::getpid());
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  TESSERA_CHECK(descriptor_ >= 0, "cannot create {}: {}", path_.string(), std::strerror(errno));
  write(tensorboard_record(version_event(start)));
}

TensorboardWriter::~TensorboardWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void TensorboardWriter::scalar(std::int64_t step, std::string_view tag, double value) {
  write(tensorboard_record(scalar_event(now(), step, tag, static_cast<float>(value))));
}

void TensorboardWriter::write(std::string_view record) {
  ssize_t written;
  do {
    written = ::write(descriptor_, record.data(), record.size());
  } while (written < 0 && errno == EINTR);
  TESSERA_CHECK(written == static_cast<ssize_t>(record.size()), "cannot write {}: {}", path_.string(),
                std::strerror(written < 0 ? errno : ENOSPC));
}

}  // namespace tessera::train
