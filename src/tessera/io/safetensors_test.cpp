#include "tessera/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera::io {
namespace {

using tessera::testing::SmallDisk;
using tessera::testing::TemporaryDirectory;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// A file with this header and these data.
std::string file_of(const std::string& header, const std::string& data = "") {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(header.size() >> (8 * i));
  }
  return bytes + header + data;
}

/// 4 tensors: two dtypes, a scalar, an empty one.
std::string written(const TemporaryDirectory& directory) {
  const float matrix[] = {1, 2, 3, 4, 5, 6};
  const double scalar = 7;
  const std::vector<TensorView> tensors = {{"scalar", DType::kF64, {}, std::as_bytes(std::span(&scalar, 1))},
                                           {"b", DType::kF32, {2, 3}, std::as_bytes(std::span(matrix))},
                                           {"a", DType::kF32, {0, 3}, {}},
                                           {"bytes", DType::kU8, {3}, bytes_of("xyz")}};
  write_safetensors(directory / "f", tensors, {{"step", "12"}, {"text", "\u00e9\"\n"}});
  return read_file(directory / "f");
}

// Written byte by byte after the format's definition.
TEST(Safetensors, ReadsAHandMadeFile) {
  const std::string header = R"({"__metadata__":{"format":"pt"},"w":{"dtype":"I16","shape":[2,1],"data_offsets":[0,4]})"
                             R"(,"empty":{"dtype":"F32","shape":[0],"data_offsets":[4,4]}})";
  ASSERT_EQ(header.size(), 0x90u);
  const std::string bytes = std::string("\x90\0\0\0\0\0\0\0", 8) + header + std::string("\x01\0\xFE\xFF", 4);
  const SafetensorsFile file(bytes_of(bytes), "f");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 2u);
  const TensorView& w = file.tensor("w");
  EXPECT_EQ(w.dtype, DType::kI16);
  EXPECT_EQ(w.shape, (std::vector<std::int64_t>{2, 1}));
  std::int16_t values[2];
  ASSERT_EQ(w.data.size(), sizeof(values));
  std::memcpy(values, w.data.data(), sizeof(values));
  EXPECT_EQ(values[0], 1);
  EXPECT_EQ(values[1], -2);
  EXPECT_TRUE(file.contains("empty"));
  EXPECT_TRUE(file.tensor("empty").data.empty());
  EXPECT_FALSE(file.contains("v"));
  EXPECT_THAT([&] { file.tensor("v"); }, ThrowsMessage<Error>(HasSubstr("f has no tensor 'v'; it holds 2 others")));
}

// The bytes that the safetensors package (0.4 and on) writes for the same tensors.
TEST(Safetensors, WritesTheGoldenBytes) {
  const TemporaryDirectory directory;
  const std::uint16_t half[] = {0x3F80, 0x4000};
  const float single = 1;
  const std::vector<TensorView> tensors = {{"b", DType::kBF16, {2}, std::as_bytes(std::span(half))},
                                           {"z", DType::kF32, {1, 1}, std::as_bytes(std::span(&single, 1))},
                                           {"a", DType::kBF16, {0}, {}},
                                           {"c", DType::kI8, {}, bytes_of("\x05")}};
  const FileFacts facts = write_safetensors(directory / "f", tensors, {{"format", "pt"}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"z":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"BF16","shape":[0],"data_offsets":[4,4]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]},)"
      R"("c":{"dtype":"I8","shape":[],"data_offsets":[8,9]}})";
  ASSERT_EQ(header.size(), 246u);
  const std::string expected =
      std::string("\xF8\0\0\0\0\0\0\0", 8) + header + "  " + std::string("\0\0\x80\x3F\x80\x3F\0\x40\x05", 9);
  const std::string found = read_file(directory / "f");
  EXPECT_EQ(found, expected);
  EXPECT_EQ(facts, (FileFacts{expected.size(), xxh3(bytes_of(expected))}));
}

TEST(Safetensors, RoundTripsAlignedAndInOrder) {
  const TemporaryDirectory directory;
  written(directory);
  const SafetensorsFile file(directory / "f");
  EXPECT_EQ(file.metadata(), (Metadata{{"step", "12"}, {"text", "\u00e9\"\n"}}));
  std::vector<std::string> names;
  for (const TensorView& tensor : file.tensors()) {
    names.push_back(tensor.name);
    EXPECT_EQ(
        reinterpret_cast<std::uintptr_t>(tensor.data.data()) % static_cast<std::uintptr_t>(dtype_size(tensor.dtype)),
        0u);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"scalar", "a", "b", "bytes"}));
  float matrix[6];
  std::memcpy(matrix, file.tensor("b").data.data(), sizeof(matrix));
  EXPECT_EQ(matrix[5], 6.0f);
  EXPECT_TRUE(file.tensor("scalar").shape.empty());
}

TEST(Safetensors, EveryDTypeRoundTrips) {
  const TemporaryDirectory directory;
  const std::string data(16, 'd');
  std::vector<TensorView> tensors;
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(dtype_name(dtype)), dtype);
    EXPECT_TRUE(i == 0 || dtype_size(dtype) >= dtype_size(static_cast<DType>(i - 1)));
    tensors.push_back({std::string(dtype_name(dtype)),
                       dtype,
                       {2},
                       bytes_of(data).first(static_cast<std::size_t>(2 * dtype_size(dtype)))});
  }
  write_safetensors(directory / "f", tensors);
  const SafetensorsFile file(directory / "f");
  for (const TensorView& tensor : tensors) {
    EXPECT_EQ(file.tensor(tensor.name).dtype, tensor.dtype);
  }
  EXPECT_THROW(parse_dtype("f32"), Error);
}

TEST(Safetensors, NoTensorsIsAFile) {
  const TemporaryDirectory directory;
  EXPECT_EQ(write_safetensors(directory / "f", {}).bytes, 16u);
  EXPECT_TRUE(SafetensorsFile(directory / "f").tensors().empty());
}

TEST(Safetensors, ViewsSurviveAMove) {
  const TemporaryDirectory directory;
  written(directory);
  SafetensorsFile file(directory / "f");
  const std::byte* const data = file.tensor("bytes").data.data();
  const SafetensorsFile moved = std::move(file);
  EXPECT_EQ(moved.tensor("bytes").data.data(), data);
  EXPECT_EQ(std::to_integer<char>(moved.tensor("bytes").data[2]), 'z');
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string bytes = written(TemporaryDirectory());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_THROW(SafetensorsFile(bytes_of(bytes).first(length), "f"), Error) << length;
  }
  EXPECT_THROW(SafetensorsFile(bytes_of(bytes + '\0'), "f"), Error);
}

// The format has no checksum, so flips in names, metadata and data pass (the checkpoint's manifest catches them);
// what is accepted must still be well-formed.
TEST(Safetensors, AFlippedBitIsAnErrorOrAWellFormedFile) {
  const std::string bytes = written(TemporaryDirectory());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    try {
      const SafetensorsFile file(bytes_of(damaged), "f");
      std::size_t total = 0;
      for (const TensorView& tensor : file.tensors()) {
        ASSERT_EQ(static_cast<std::size_t>(byte_count(tensor.dtype, tensor.shape)), tensor.data.size());
        total += tensor.data.size();
      }
      ASSERT_EQ(total, 8u + 24 + 3) << "bit " << bit;
      ASSERT_GE(bit / 8, 8u) << "a wrong header length was accepted";
    } catch (const Error&) {
    }
  }
}

TEST(Safetensors, MalformedFilesAreSentences) {
  const auto message = [](const std::string& bytes, const char* text) {
    EXPECT_THAT([&] { SafetensorsFile(bytes_of(bytes), "f"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("f "), HasSubstr(text))))
        << bytes;
  };
  EXPECT_NO_THROW(
      SafetensorsFile(bytes_of(file_of(R"({"t":{"shape":[2],"data_offsets":[0,2],"dtype":"U8"}}   )", "xx")), "f"));
  message("", "is empty");
  message("1234567", "is truncated: it has 7 bytes");
  message(std::string("\x01\0\0\0\0\0\0\x80", 8), "announce a header of 9223372036854775809 bytes");
  message(std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8), "announce a header of 18446744073709551615 bytes");
  message(std::string("\x09\0\0\0\0\0\0\0{}", 10), "is truncated: its header takes 9 bytes, 2 follow");
  message(file_of(""), "does not begin with '{'");
  message(file_of(" {}"), "does not begin with '{'");
}

TEST(Safetensors, MalformedHeadersAreSentences) {
  struct Case {
    const char *entry, *data, *text;
  };
  const Case cases[] = {
      {R"("dtype":"U8","shape":[2],"data_offsets":[0,2],"extra":1)", "xx", "has the unknown key 'extra'"},
      {R"("dtype":"U8","shape":[2])", "xx", "needs a dtype, a shape and two data_offsets"},
      {R"("dtype":"U8","data_offsets":[0,2])", "xx", "needs a dtype, a shape and two data_offsets"},
      {R"("shape":[2],"data_offsets":[0,2])", "xx", "needs a dtype, a shape and two data_offsets"},
      {R"("dtype":"U8","shape":[2],"data_offsets":[0,1,2])", "xx", "two data_offsets"},
      {R"("dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2])", "xx", "has 'dtype' twice"},
      {R"("dtype":"U8","shape":[2],"shape":[2],"data_offsets":[0,2])", "xx", "has 'shape' twice"},
      {R"("dtype":"U7","shape":[2],"data_offsets":[0,2])", "xx", "has the unknown dtype 'U7'"},
      {R"("dtype":"F4","shape":[4],"data_offsets":[0,2])", "xx", "has the unknown dtype 'F4'"},
      {R"("dtype":"U8","shape":[-2],"data_offsets":[0,2])", "xx", "has a negative number"},
      {R"("dtype":"U8","shape":[2.0],"data_offsets":[0,2])", "xx", "has a number that is not an integer"},
      {R"("dtype":"U8","shape":[[2]],"data_offsets":[0,2])", "xx", "has an array"},
      {R"("dtype":"U8","shape":{"a":2},"data_offsets":[0,2])", "xx", "has an object"},
      {R"("dtype":"U8","shape":2,"data_offsets":[0,2])", "xx", "has a number"},
      {R"("dtype":"U8","shape":"2","data_offsets":[0,2])", "xx", "has a string"},
      {R"("dtype":null,"shape":[2],"data_offsets":[0,2])", "xx", "has null"},
      {R"("dtype":["U8"],"shape":[2],"data_offsets":[0,2])", "xx", "has an array"},
      {R"("dtype":"U8","shape":[true],"data_offsets":[0,2])", "xx", "has a boolean"},
      {R"("dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,2])", "xx",
       "a dimension of 18446744073709551615"},
      {R"("dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0])", "", "has too many elements"},
      {R"("dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0])", "", "has too many bytes"},
      {R"("dtype":"U8","shape":[3],"data_offsets":[0,2])", "xx",
       "takes 3 bytes by its dtype and shape, 2 by its offsets"},
      {R"("dtype":"U8","shape":[2],"data_offsets":[0,3])", "xx", "is truncated: tensor 't' ends at byte 3"},
      {R"("dtype":"U8","shape":[2],"data_offsets":[0,18446744073709551615])", "xx",
       "ends at byte 18446744073709551615"},
      {R"("dtype":"U8","shape":[1],"data_offsets":[1,2])", "xx", "begins at byte 1 of the data, expected 0"},
      {R"("dtype":"U8","shape":[0],"data_offsets":[0,0])", "xx", "2 bytes follow the last tensor"},
      {R"("dtype":"U8","shape":[2],"data_offsets":[0,2)", "xx", "is no JSON from byte"}};
  for (const Case& c : cases) {
    const std::string bytes = file_of(std::string("{\"t\":{") + c.entry + "}}", c.data);
    EXPECT_THAT([&] { SafetensorsFile(bytes_of(bytes), "f"); }, ThrowsMessage<Error>(HasSubstr(c.text))) << c.entry;
  }
}

TEST(Safetensors, MalformedHeadersBeyondOneTensor) {
  const std::string byte = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  const std::string next = R"({"dtype":"U8","shape":[1],"data_offsets":[1,2]})";
  const auto message = [](const std::string& header, const std::string& data, const char* text) {
    const std::string bytes = file_of(header, data);
    EXPECT_THAT([&] { SafetensorsFile(bytes_of(bytes), "f"); }, ThrowsMessage<Error>(HasSubstr(text))) << header;
  };
  message("{\"a\":" + byte + ",\"a\":" + next + "}", "xx", "has 'a' twice");
  message("{\"a\":" + byte + ",\"b\":" + byte + "}", "x", "tensor 'b' begins at byte 0 of the data, expected 1");
  message("{\"a\":" + byte + ",\"b\":" + next + "}", "x", "is truncated: tensor 'b'");
  message(R"({"__metadata__":{"a":"1","a":"2"}})", "", "metadata has 'a' twice");
  message(R"({"__metadata__":{"a":1}})", "", "has a number");
  message(R"({"__metadata__":{"a":{}}})", "", "has an object");
  message(R"({"__metadata__":{},"__metadata__":{}})", "", "has '__metadata__' twice");
  message(R"({"a":1})", "", "has a number");
  message(R"({"a":[]})", "", "has an array");
  message("{} {}", "", "is no JSON");
  message(std::string("{}\0\0", 4), "", "contains a zero byte");
  message("{\"\xFF\":" + byte + "}", "x", "is no JSON");
  message(R"({"a":1e999})", "", "is no JSON");
  message("{\"a\":" + std::string(100'000, '['), "", "has an array");
}

TEST(Safetensors, WriterRefusesBeforeItWrites) {
  const TemporaryDirectory directory;
  const auto message = [&](std::vector<TensorView> tensors, const Metadata& metadata, const char* text) {
    EXPECT_THAT([&] { write_safetensors(directory / "f", tensors, metadata); }, ThrowsMessage<Error>(HasSubstr(text)));
    EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  };
  const TensorView good{"a", DType::kU8, {1}, bytes_of("x")};
  message({good, good}, {}, "two tensors are named 'a'");
  message({{"__metadata__", DType::kU8, {1}, bytes_of("x")}}, {}, "which the format reserves");
  message({{"a", DType::kU16, {1}, bytes_of("x")}}, {}, "takes 2 bytes by its dtype and shape, 1 were given");
  message({{"a", DType::kU8, {-1}, {}}}, {}, "the shape [-1] has a negative dimension");
  message({{"a", DType::kU8, {1L << 62, 4}, {}}}, {}, "has too many elements");
  message({{"\xFF", DType::kU8, {1}, bytes_of("x")}}, {}, "not valid UTF-8");
  message({good}, {{"a", "\xC3"}}, "not valid UTF-8");
  write_file(directory / "g", "old");
  EXPECT_THAT([&] { write_safetensors(directory / "g", {}, {}, ExistingFile::kRefuse); },
              ThrowsMessage<Error>(HasSubstr("exists already")));
  EXPECT_EQ(read_file(directory / "g"), "old");
}

TEST(Safetensors, FullDiskIsASentenceAndLeavesNothing) {
  const SmallDisk disk(64 << 10);
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting a tmpfs takes root";
  }
  const std::string data(200'000, 'x');
  const TensorView tensor{"a", DType::kU8, {200'000}, bytes_of(data)};
  EXPECT_THAT(
      [&] {
        write_safetensors(disk.path() / "f", {&tensor, 1});
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("/f: "), HasSubstr("No space left on device"))));
  EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
}

}  // namespace
}  // namespace tessera::io
