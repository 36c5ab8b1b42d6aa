#include "tessera/train/tensorboard.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <variant>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera::train {
namespace {

// A reader of the wire format that shares nothing with the writer.
struct Reader {
  std::string_view bytes;
  std::size_t at = 0;

  template <typename T>
  T fixed() {
    T value;
    EXPECT_LE(at + sizeof(T), bytes.size());
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    at += sizeof(T);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= std::uint64_t{byte & 127u} << shift;
      if (byte < 128) return value;
    }
  }
  std::string_view text() {
    const std::uint64_t size = varint();
    at += size;
    EXPECT_LE(at, bytes.size());
    return bytes.substr(at - size, size);
  }
  bool more() const { return at < bytes.size(); }
};

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string version, tag;
  float value = 0;
};

Event parse_event(std::string_view bytes) {
  Event event;
  for (Reader reader{bytes}; reader.more();) {
    switch (reader.varint()) {
      case 1 << 3 | 1:
        event.wall_time = reader.fixed<double>();
        break;
      case 2 << 3 | 0:
        event.step = static_cast<std::int64_t>(reader.varint());
        break;
      case 3 << 3 | 2:
        event.version = reader.text();
        break;
      case 5 << 3 | 2: {
        Reader summary{reader.text()};
        EXPECT_EQ(summary.varint(), 1u << 3 | 2);
        Reader value{summary.text()};
        EXPECT_EQ(value.varint(), 1u << 3 | 2);
        event.tag = value.text();
        EXPECT_EQ(value.varint(), 2u << 3 | 5);
        event.value = value.fixed<float>();
        EXPECT_FALSE(value.more() || summary.more());
        break;
      }
      default:
        ADD_FAILURE() << "unknown field";
        return event;
    }
  }
  return event;
}

std::vector<Event> parse_file(const std::string& bytes) {
  std::vector<Event> events;
  for (Reader reader{bytes}; reader.more();) {
    const std::string_view length_bytes = std::string_view(bytes).substr(reader.at, 8);
    const auto length = reader.fixed<std::uint64_t>();
    EXPECT_EQ(reader.fixed<std::uint32_t>(), masked_crc32c(length_bytes));
    const std::string_view payload = std::string_view(bytes).substr(reader.at, length);
    reader.at += length;
    EXPECT_EQ(reader.fixed<std::uint32_t>(), masked_crc32c(payload));
    events.push_back(parse_event(payload));
  }
  return events;
}

// RFC 3720, appendix B.4.
TEST(Crc32c, KnownVectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string up, down;
  for (int i = 0; i < 32; ++i) up += static_cast<char>(i), down += static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(up), 0x46dd794eu);
  EXPECT_EQ(crc32c(down), 0x113fdb5cu);
}

TEST(Crc32c, MaskRotatesAndAdds) {
  const std::uint32_t crc = 0xe3069283u;
  EXPECT_EQ(masked_crc32c("123456789"), static_cast<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u));
}

TEST(Tensorboard, EventsReadBack) {
  const Event version = parse_event(version_event(12.5));
  EXPECT_EQ(version.wall_time, 12.5);
  EXPECT_EQ(version.version, "brain.Event:2");
  for (const std::int64_t step : {0LL, 1LL, 127LL, 128LL, 300LL, 4000000000LL}) {
    const Event event = parse_event(scalar_event(1.25e9, step, "train/loss", 2.75f));
    EXPECT_EQ(event.wall_time, 1.25e9);
    EXPECT_EQ(event.step, step);
    EXPECT_EQ(event.tag, "train/loss");
    EXPECT_EQ(event.value, 2.75f);
  }
}

TEST(Tensorboard, FileHoldsFramedEvents) {
  const tessera::testing::TemporaryDirectory directory;
  {
    TensorboardWriter writer(directory / "tb");
    for (std::int64_t step = 1; step <= 200; ++step) writer.scalar(step, "x", static_cast<double>(step) / 4);
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "tb")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(files[0].filename().string().starts_with("events.out.tfevents."));
  const std::vector<Event> events = parse_file(read_file(files[0]));
  ASSERT_EQ(events.size(), 201u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  for (std::size_t i = 1; i < events.size(); ++i) {
    EXPECT_EQ(events[i].step, static_cast<std::int64_t>(i));
    EXPECT_EQ(events[i].value, static_cast<float>(i) / 4);
    EXPECT_GE(events[i].wall_time, events[i - 1].wall_time);
  }
}

TEST(Tensorboard, FolderThatCannotBeMadeIsAnError) {
  const tessera::testing::TemporaryDirectory directory;
  write_file(directory / "tb", "a file");
  EXPECT_THROW(TensorboardWriter(directory / "tb"), Error);
}

}  // namespace
}  // namespace tessera::train
