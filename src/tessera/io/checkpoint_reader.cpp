#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/io/checkpoint_store.h"
#include "tessera/io/manifest.h"

namespace tessera::io {
namespace {

void verify_file(const std::filesystem::path& path, const FileFacts& facts) {
  TESSERA_CHECK(path_exists(path), "{} is missing, though the checkpoint's manifest lists it", path.string());
  const MappedFile file(path);
  TESSERA_CHECK(file.bytes().size() == facts.bytes, "{} is damaged: it has {} bytes, the manifest says {}",
                path.string(), file.bytes().size(), facts.bytes);
  const std::uint64_t found = xxh3(file.bytes());
  TESSERA_CHECK(found == facts.checksum, "{} is damaged: it has checksum {}, the manifest says {}", path.string(),
                checksum_text(found), checksum_text(facts.checksum));
}

}  // namespace

CheckpointReader open_checkpoint(const std::filesystem::path& path) {
  TESSERA_CHECK(path_exists(path), "there is no checkpoint {}", path.string());
  const std::filesystem::path manifest_path = path / kManifestName;
  TESSERA_CHECK(path_exists(manifest_path), "{} is no complete checkpoint: it has no {}", path.string(), kManifestName);
  Manifest manifest = parse_manifest(read_file(manifest_path), manifest_path.string());
  for (const auto& [filename, facts] : manifest.files) {
    verify_file(path / filename, facts);
  }
  CheckpointReader reader;
  reader.step_ = manifest.step;
  reader.path_ = path;
  reader.user_ = std::move(manifest.user);
  reader.files_ = std::move(manifest.files);
  return reader;
}

std::vector<std::string> CheckpointReader::files() const {
  std::vector<std::string> names;
  for (const auto& [filename, facts] : files_) {
    names.push_back(filename);
  }
  return names;
}

std::filesystem::path CheckpointReader::place(const std::string& filename) const {
  TESSERA_CHECK(contains(filename), "the checkpoint {} has no file {}", path_.string(), filename);
  return path_ / filename;
}

SafetensorsFile CheckpointReader::safetensors(const std::string& filename) const {
  return SafetensorsFile(place(filename));
}

std::string CheckpointReader::text(const std::string& filename) const { return read_file(place(filename)); }

nlohmann::json CheckpointReader::json(const std::string& filename) const {
  return parse_json(text(filename), place(filename).string());
}

}  // namespace tessera::io
