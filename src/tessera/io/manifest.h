#pragma once
// The checkpoint's manifest (format in checkpoint_store.h) and the small JSON helpers around it.
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tessera/io/safetensors.h"

namespace tessera::io {

inline constexpr std::string_view kManifestName = "manifest.json";

struct Manifest {
  std::int64_t step = 0;
  std::map<std::string, FileFacts> files;
  nlohmann::json user;
};

std::string manifest_text(const Manifest& manifest);

/// Throws Error, with `name` for the file, for anything that manifest_text does not write: the text must be the
/// canonical one, so a flipped bit cannot hide in a number's spelling or in white space.
Manifest parse_manifest(std::string_view text, const std::string& name);

/// Indented JSON with a final line break; throws Error, with `name`, for a number that is not finite or a string that
/// is not UTF-8.
std::string json_text(const nlohmann::json& json, std::string_view name);

/// Throws Error, with `name`, for text that is no JSON.
nlohmann::json parse_json(std::string_view text, std::string_view name);

/// Throws Error unless `filename` is a plain file name other than the manifest's.
void check_checkpoint_filename(const std::string& filename);

FileFacts file_facts(std::string_view text);

}  // namespace tessera::io
