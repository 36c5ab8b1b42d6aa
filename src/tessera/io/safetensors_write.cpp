#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/base/math.h"
#include "tessera/io/safetensors.h"

namespace tessera::io {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written in memory order");

std::vector<const TensorView*> file_order(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    TESSERA_CHECK(tensor.name != "__metadata__", "a tensor is named '__metadata__', which the format reserves");
    const std::int64_t size = byte_count(tensor.dtype, tensor.shape);
    TESSERA_CHECK(static_cast<std::uint64_t>(size) == tensor.data.size(),
                  "tensor '{}' takes {} bytes by its dtype and shape, {} were given", tensor.name, size,
                  tensor.data.size());
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return std::tie(b->dtype, a->name) < std::tie(a->dtype, b->name);
  });
  return order;
}

/// Length and JSON, padded to a multiple of 8.
std::string make_header(const std::vector<const TensorView*>& order, const Metadata& metadata) {
  std::set<std::string_view> names;
  std::vector<std::string> entries;
  std::uint64_t offset = 0;
  try {
    if (!metadata.empty()) {
      entries.push_back("\"__metadata__\":" + nlohmann::json(metadata).dump());
    }
    for (const TensorView* tensor : order) {
      TESSERA_CHECK(names.insert(tensor->name).second, "two tensors are named '{}'", tensor->name);
      const std::uint64_t end = offset + tensor->data.size();
      entries.push_back(fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                    nlohmann::json(tensor->name).dump(), dtype_name(tensor->dtype),
                                    fmt::join(tensor->shape, ","), offset, end));
      offset = end;
    }
  } catch (const nlohmann::json::exception&) {
    fail("a tensor's name or the metadata is not valid UTF-8");
  }
  std::string text = fmt::format("{{{}}}", fmt::join(entries, ","));
  text.resize(round_up<std::size_t>(text.size(), 8), ' ');
  TESSERA_CHECK(text.size() <= SafetensorsFile::kMaxHeaderBytes, "the header takes {} bytes, at most {} are allowed",
                text.size(), SafetensorsFile::kMaxHeaderBytes);
  std::string result(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    result[i] = static_cast<char>(static_cast<std::uint64_t>(text.size()) >> (8 * i) & 0xFF);
  }
  return result + text;
}

}  // namespace

FileFacts write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                            const Metadata& metadata, ExistingFile existing) {
  const std::vector<const TensorView*> order = file_order(tensors);
  const std::string header = make_header(order, metadata);
  AtomicFile file(path, existing);
  Checksum checksum;
  const auto write = [&](std::span<const std::byte> bytes) {
    checksum.update(bytes);
    file.write(bytes);
  };
  write(std::as_bytes(std::span(header)));
  for (const TensorView* tensor : order) {
    write(tensor->data);
  }
  file.commit();
  return {file.size(), checksum.value()};
}

}  // namespace tessera::io
