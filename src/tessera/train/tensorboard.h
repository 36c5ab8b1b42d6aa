#pragma once
// TensorBoard event files. A record is
//   length u64 | masked CRC-32C of length u32 | Event protobuf | masked CRC-32C of the protobuf u32     (little-endian)
// and an Event here is {1: wall_time double, 2: step int64, 3: file_version string | 5: Summary {1: Value {1: tag,
// 2: simple_value float}}}.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tessera::train {

/// CRC-32C (Castagnoli), reflected, initial value and final xor 0xffffffff.
std::uint32_t crc32c(std::string_view bytes);
/// ((crc >> 15) | (crc << 17)) + 0xa282ead8: what TFRecord stores.
std::uint32_t masked_crc32c(std::string_view bytes);

/// One framed record.
std::string tensorboard_record(std::string_view payload);
/// Event protobufs.
std::string version_event(double wall_time);
std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value);

class TensorboardWriter {
 public:
  /// Create directory/events.out.tfevents.<seconds>.<host>.<pid>; throws Error when that fails.
  explicit TensorboardWriter(const std::filesystem::path& directory);
  ~TensorboardWriter();
  TensorboardWriter(const TensorboardWriter&) = delete;
  TensorboardWriter& operator=(const TensorboardWriter&) = delete;

  void scalar(std::int64_t step, std::string_view tag, double value);

 private:
  void write(std::string_view record);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace tessera::train
