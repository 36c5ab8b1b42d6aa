#include "tessera/io/manifest.h"

#include <span>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"

namespace tessera::io {
namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "tessera-checkpoint";
constexpr std::int64_t kVersion = 1;

std::uint64_t checksum_of(std::string_view text) { return xxh3(std::as_bytes(std::span(text))); }

bool is_plain_name(const std::string& filename) {
  return !filename.empty() && filename != "." && filename != ".." && filename != kManifestName &&
         filename.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

std::uint64_t parse_checksum(const std::string& text) {
  std::uint64_t value = 0;
  for (const char c : text) {
    value = value << 4 | static_cast<std::uint64_t>(c >= 'a' ? c - 'a' + 10 : c - '0');
  }
  return value;
}

/// A checksum as checksum_text spells it.
bool is_checksum(const json& value) {
  return value.is_string() && value.get_ref<const std::string&>().size() == 16 &&
         value.get_ref<const std::string&>().find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string json_text(const json& value, std::string_view name) {
  std::string text;
  try {
    text = value.dump(2) + '\n';
  } catch (const json::exception&) {
    fail("{} would hold a string that is not valid UTF-8", name);
  }
  // dump() turns infinities and NaN into null; only then does reading back give something else.
  TESSERA_CHECK(json::parse(text) == value, "{} would hold a number that is not finite", name);
  return text;
}

json parse_json(std::string_view text, std::string_view name) {
  constexpr int kMaxDepth = 100;  // what walks the tree later does so recursively
  const auto check_depth = [&](int depth, json::parse_event_t, json&) {
    TESSERA_CHECK(depth <= kMaxDepth, "{} is damaged: it is nested deeper than {} levels", name, kMaxDepth);
    return true;
  };
  try {
    return json::parse(text, check_depth);
  } catch (const json::parse_error& error) {
    fail("{} is damaged: it is no JSON from byte {} on", name, error.byte);
  } catch (const json::out_of_range&) {
    fail("{} is damaged: it holds a number beyond the range of a double", name);
  }
}

void check_checkpoint_filename(const std::string& filename) {
  TESSERA_CHECK(is_plain_name(filename), "'{}' cannot name a file of a checkpoint", filename);
}

FileFacts file_facts(std::string_view text) { return {text.size(), checksum_of(text)}; }

std::string manifest_text(const Manifest& manifest) {
  json files = json::object();
  for (const auto& [name, facts] : manifest.files) {
    files[name] = {{"bytes", facts.bytes}, {"xxh3", checksum_text(facts.checksum)}};
  }
  json root = {{"format", kFormat}, {"version", kVersion},   {"step", manifest.step},
               {"files", files},    {"user", manifest.user}, {"checksum", ""}};
  root["checksum"] = checksum_text(checksum_of(json_text(root, kManifestName)));
  return json_text(root, kManifestName);
}

Manifest parse_manifest(std::string_view text, const std::string& name) {
  json root = parse_json(text, name);
  TESSERA_CHECK(root.is_object() && root.value("format", json()) == kFormat, "{} is no manifest of a checkpoint", name);
  TESSERA_CHECK(root.value("version", json()) == kVersion, "{} has version {}, this program reads version {}", name,
                root.value("version", json()).dump(), kVersion);
  TESSERA_CHECK(is_checksum(root.value("checksum", json())), "{} is damaged: it has no checksum", name);
  const std::string stored = root["checksum"];
  const bool canonical = root.dump(2, ' ', false, json::error_handler_t::replace) + '\n' == text;
  root["checksum"] = "";
  const std::string found = checksum_text(checksum_of(json_text(root, name)));
  TESSERA_CHECK(found == stored, "{} is damaged: it has checksum {}, but {} is stored", name, found, stored);
  TESSERA_CHECK(canonical, "{} is damaged: it is not written as it was by this program", name);

  const json step = root.value("step", json()), files = root.value("files", json());
  TESSERA_CHECK(step.is_number_unsigned() && files.is_object() && root.contains("user"),
                "{} lacks its step, files or user part", name);
  Manifest manifest{step.get<std::int64_t>(), {}, root["user"]};
  for (const auto& [filename, facts] : files.items()) {
    const bool complete = is_plain_name(filename) && facts.is_object() &&
                          facts.value("bytes", json()).is_number_unsigned() && is_checksum(facts.value("xxh3", json()));
    TESSERA_CHECK(complete, "{} has an invalid entry for the file '{}'", name, filename);
    manifest.files[filename] = {facts["bytes"].get<std::uint64_t>(), parse_checksum(facts["xxh3"])};
  }
  return manifest;
}

}  // namespace tessera::io
