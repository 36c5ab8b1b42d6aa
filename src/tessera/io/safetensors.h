#pragma once
// Safetensors: 8 bytes little-endian header length, a JSON header {name: {dtype, shape, data_offsets}}, the tensors'
// bytes end to end. Reader and writer of the format of https://github.com/huggingface/safetensors.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/file.h"

namespace tessera::io {

/// In the format's own order, by which files are sorted; sizes never decrease. Its types of less than a byte (F4,
/// F6_E2M3, F6_E3M2) are not supported.
enum class DType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64
};

/// Bytes per element.
std::int64_t dtype_size(DType dtype);
/// "F32", "BF16", ... as the header spells them.
std::string_view dtype_name(DType dtype);
/// Throws Error for any other name.
DType parse_dtype(std::string_view name);

/// A named tensor in somebody else's memory, dense and row-major; a scalar has an empty shape.
struct TensorView {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;
};

using Metadata = std::map<std::string, std::string>;

/// Elements of a shape; throws Error for a negative dimension or a product beyond 2^63 - 1.
std::int64_t element_count(std::span<const std::int64_t> shape);
/// Bytes of a tensor; throws Error as element_count.
std::int64_t byte_count(DType dtype, std::span<const std::int64_t> shape);

/// An open file. Views point into it. Immutable, so it may be read from any thread.
class SafetensorsFile {
 public:
  static constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

  /// Map and validate; throws Error (a sentence with the path) for anything but a well-formed file: header length,
  /// JSON, unknown keys, dtypes, duplicate names, shapes whose bytes are not the offsets' span, gaps, overlaps,
  /// bytes after the last tensor.
  explicit SafetensorsFile(const std::filesystem::path& path);
  /// The same over bytes in memory, which must outlive the object; `name` stands for the path in messages.
  SafetensorsFile(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  const Metadata& metadata() const { return metadata_; }
  /// In the order of their bytes in the file. Data need not be aligned to its element size: copy, don't cast,
  /// unless the file was written by write_safetensors.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  bool contains(std::string_view tensor) const;
  /// Throws Error when absent.
  const TensorView& tensor(std::string_view tensor) const;

 private:
  void parse(std::span<const std::byte> bytes);

  std::string name_;
  MappedFile file_;
  Metadata metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// Size and checksum of a file.
struct FileFacts {
  std::uint64_t bytes = 0, checksum = 0;  ///< XXH3-64
  bool operator==(const FileFacts&) const = default;
};

/// Write atomically and durably: last dtype of the enumeration first, then by name; header padded with spaces to 8
/// bytes; so every tensor is aligned to its element. Throws Error for a duplicate name, the name "__metadata__", a
/// name that is not UTF-8, bytes that don't match dtype and shape; before anything is written.
FileFacts write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                            const Metadata& metadata = {}, ExistingFile existing = ExistingFile::kReplace);

}  // namespace tessera::io
