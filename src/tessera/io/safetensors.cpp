#include "tessera/io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::io {
namespace {

struct DTypeFacts {
  std::string_view name;
  std::int64_t size;
};

constexpr std::array<DTypeFacts, 17> kDTypes = {{{"BOOL", 1},
                                                 {"U8", 1},
                                                 {"I8", 1},
                                                 {"F8_E5M2", 1},
                                                 {"F8_E4M3", 1},
                                                 {"F8_E8M0", 1},
                                                 {"I16", 2},
                                                 {"U16", 2},
                                                 {"F16", 2},
                                                 {"BF16", 2},
                                                 {"I32", 4},
                                                 {"U32", 4},
                                                 {"F32", 4},
                                                 {"C64", 8},
                                                 {"F64", 8},
                                                 {"I64", 8},
                                                 {"U64", 8}}};
static_assert(static_cast<std::size_t>(DType::kU64) + 1 == kDTypes.size());

std::optional<DType> find_dtype(std::string_view name) {
  const auto found =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeFacts& facts) { return facts.name == name; });
  return found == kDTypes.end() ? std::nullopt : std::optional(static_cast<DType>(found - kDTypes.begin()));
}

/// A header's entry before it is checked against the data.
struct Entry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape = {};
  std::vector<std::uint64_t> offsets = {};
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

/// Receives the header's JSON piece by piece and admits nothing but its grammar: no tree is built, so depth, repeated
/// keys and foreign types cannot get past it.
class HeaderParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderParser(std::string file, Metadata& metadata, std::vector<Entry>& entries)
      : file_(std::move(file)), metadata_(metadata), entries_(entries) {}

  bool start_object(std::size_t) override {
    if (state_ == State::kStart) {
      state_ = State::kTop;
    } else if (state_ == State::kTop) {
      state_ = key_ == "__metadata__" ? State::kMetadata : State::kTensor;
      if (state_ == State::kTensor) {
        entries_.push_back({key_});
      }
    } else {
      misplaced("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    key_ = key;
    if (state_ == State::kTop) {
      TESSERA_CHECK(names_.insert(key).second, "{} is invalid: its header has '{}' twice", file_, key);
    } else if (state_ == State::kMetadata) {
      TESSERA_CHECK(!metadata_.contains(key), "{} is invalid: its metadata has '{}' twice", file_, key);
    } else {
      Entry& entry = entries_.back();
      TESSERA_CHECK(key == "dtype" || key == "shape" || key == "data_offsets",
                    "{} is invalid: tensor '{}' has the unknown key '{}'", file_, entry.name, key);
      bool& seen = key == "dtype" ? entry.has_dtype : key == "shape" ? entry.has_shape : entry.has_offsets;
      TESSERA_CHECK(!seen, "{} is invalid: tensor '{}' has '{}' twice", file_, entry.name, key);
      seen = true;
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTensor) {
      const Entry& entry = entries_.back();
      TESSERA_CHECK(entry.has_dtype && entry.has_shape && entry.offsets.size() == 2,
                    "{} is invalid: tensor '{}' needs a dtype, a shape and two data_offsets", file_, entry.name);
    }
    state_ = state_ == State::kTop ? State::kEnd : State::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ != State::kTensor || key_ == "dtype") {
      misplaced("an array");
    }
    state_ = State::kArray;
    return true;
  }

  bool end_array() override {
    state_ = State::kTensor;
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) {
      metadata_[key_] = value;
    } else if (state_ == State::kTensor && key_ == "dtype") {
      const auto dtype = find_dtype(value);
      TESSERA_CHECK(dtype, "{}: tensor '{}' has the unknown dtype '{}'", file_, entries_.back().name, value);
      entries_.back().dtype = *dtype;
    } else {
      misplaced("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kArray) {
      misplaced("a number");
    }
    Entry& entry = entries_.back();
    if (key_ == "shape") {
      TESSERA_CHECK(std::in_range<std::int64_t>(value), "{} is invalid: tensor '{}' has a dimension of {}", file_,
                    entry.name, value);
      entry.shape.push_back(static_cast<std::int64_t>(value));
    } else {
      entry.offsets.push_back(value);
    }
    return true;
  }

  bool number_integer(number_integer_t) override { misplaced("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { misplaced("a number that is not an integer"); }
  bool boolean(bool) override { misplaced("a boolean"); }
  bool null() override { misplaced("null"); }
  bool binary(binary_t&) override { misplaced("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("{} is invalid: its header is no JSON from byte {} on", file_, position);
  }

 private:
  enum class State { kStart, kTop, kMetadata, kTensor, kArray, kEnd };

  [[noreturn]] void misplaced(const char* what) const {
    fail("{} is invalid: its header has {} where the format has none (after the key '{}')", file_, what, key_);
  }

  std::string file_, key_;
  Metadata& metadata_;
  std::vector<Entry>& entries_;
  std::set<std::string> names_;
  State state_ = State::kStart;
};

std::optional<std::int64_t> checked_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}

/// The header's text; the data are the rest.
std::string_view header_text(std::span<const std::byte> bytes, const std::string& name) {
  TESSERA_CHECK(!bytes.empty(), "{} is empty, expected a safetensors file", name);
  TESSERA_CHECK(bytes.size() >= 8, "{} is truncated: it has {} bytes, the header's length alone takes 8", name,
                bytes.size());
  std::uint64_t length = 0;
  for (int i = 0; i < 8; ++i) {
    length |= std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(i)]) << (8 * i);
  }
  TESSERA_CHECK(length <= SafetensorsFile::kMaxHeaderBytes,
                "{} is not a safetensors file: its first 8 bytes announce a header of {} bytes, at most {} are allowed",
                name, length, SafetensorsFile::kMaxHeaderBytes);
  TESSERA_CHECK(length <= bytes.size() - 8, "{} is truncated: its header takes {} bytes, {} follow", name, length,
                bytes.size() - 8);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<std::size_t>(length));
  TESSERA_CHECK(text.starts_with('{'), "{} is not a safetensors file: its header does not begin with '{{'", name);
  // The JSON parser takes a zero byte for the end of its input.
  TESSERA_CHECK(text.find('\0') == std::string_view::npos, "{} is invalid: its header contains a zero byte", name);
  return text;
}

}  // namespace

std::int64_t dtype_size(DType dtype) { return kDTypes.at(static_cast<std::size_t>(dtype)).size; }

std::string_view dtype_name(DType dtype) { return kDTypes.at(static_cast<std::size_t>(dtype)).name; }

DType parse_dtype(std::string_view name) {
  const auto dtype = find_dtype(name);
  TESSERA_CHECK(dtype, "the dtype '{}' is unknown", name);
  return *dtype;
}

std::int64_t element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : shape) {
    TESSERA_CHECK(dimension >= 0, "the shape [{}] has a negative dimension", fmt::join(shape, ", "));
    const auto product = checked_product(count, dimension);
    TESSERA_CHECK(product, "the shape [{}] has too many elements", fmt::join(shape, ", "));
    count = *product;
  }
  return count;
}

std::int64_t byte_count(DType dtype, std::span<const std::int64_t> shape) {
  const auto product = checked_product(element_count(shape), dtype_size(dtype));
  TESSERA_CHECK(product, "the shape [{}] of {} has too many bytes", fmt::join(shape, ", "), dtype_name(dtype));
  return *product;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : name_(path.string()), file_(path) {
  parse(file_.bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, std::string name) : name_(std::move(name)) {
  parse(bytes);
}

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  const std::string_view text = header_text(bytes, name_);
  std::vector<Entry> entries;
  HeaderParser parser(name_, metadata_, entries);
  nlohmann::json::sax_parse(text.begin(), text.end(), &parser);
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.offsets, a.name) < std::tie(b.offsets, b.name); });

  const auto data = bytes.subspan(8 + text.size());
  std::uint64_t expected = 0;
  for (Entry& entry : entries) {
    const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    TESSERA_CHECK(begin == expected, "{} is invalid: tensor '{}' begins at byte {} of the data, expected {}", name_,
                  entry.name, begin, expected);
    TESSERA_CHECK(begin <= end, "{} is invalid: tensor '{}' ends at byte {} of the data, before it begins at {}", name_,
                  entry.name, end, begin);
    TESSERA_CHECK(end <= data.size(), "{} is truncated: tensor '{}' ends at byte {} of the data, which have {}", name_,
                  entry.name, end, data.size());
    std::int64_t size = 0;
    try {
      size = byte_count(entry.dtype, entry.shape);
    } catch (const Error& error) {
      fail("{} is invalid: tensor '{}': {}", name_, entry.name, error.what());
    }
    TESSERA_CHECK(static_cast<std::uint64_t>(size) == end - begin,
                  "{} is invalid: tensor '{}' takes {} bytes by its dtype and shape, {} by its offsets", name_,
                  entry.name, size, end - begin);
    index_.emplace(entry.name, tensors_.size());
    tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                        data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size))});
    expected = end;
  }
  TESSERA_CHECK(expected == data.size(), "{} is invalid: {} bytes follow the last tensor", name_,
                data.size() - expected);
}

bool SafetensorsFile::contains(std::string_view tensor) const { return index_.contains(tensor); }

const TensorView& SafetensorsFile::tensor(std::string_view tensor) const {
  const auto found = index_.find(tensor);
  TESSERA_CHECK(found != index_.end(), "{} has no tensor '{}'; it holds {} others", name_, tensor, tensors_.size());
  return tensors_[found->second];
}

}  // namespace tessera::io
