#pragma once
// What `tessera inspect` says about a path, once for people and once for programs.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tessera/quant/recipe.h"

namespace tessera::cli {

struct Inspection {
  std::string text;             ///< lines and tables, ends in a line break
  nlohmann::ordered_json json;  ///< the same facts; "kind" names what it is
};

struct InspectOptions {
  bool verify = true;                   ///< check every byte of a token file, not only its header
  std::optional<quant::Recipe> recipe;  ///< of the weight errors; none: the checkpoint's own
};

/// Find out what `path` is and describe it. Throws Error when it is nothing of ours or is damaged.
Inspection inspect_path(const std::filesystem::path& path, const InspectOptions& options);

Inspection inspect_token_file(const std::filesystem::path& path, const InspectOptions& options);
Inspection inspect_safetensors(const std::filesystem::path& path);
Inspection inspect_config(const std::filesystem::path& path);
Inspection inspect_metrics(const std::filesystem::path& path);
Inspection inspect_json(const std::filesystem::path& path);
/// A checkpoint folder: its files, all verified, and the weight errors of its linear layers.
Inspection inspect_checkpoint(const std::filesystem::path& path, const InspectOptions& options);
/// A run folder: configuration, metrics, checkpoints, and the newest valid checkpoint.
Inspection inspect_run(const std::filesystem::path& path, const InspectOptions& options);

}  // namespace tessera::cli
