// Checkpoints and runs.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "inspect/report.h"
#include "inspect/weight_error.h"
#include "table.h"
#include "tessera/base/aligned_buffer.h"
#include "tessera/base/check.h"
#include "tessera/io/checkpoint_store.h"
#include "tessera/train/config.h"

namespace tessera::cli {
namespace {

constexpr const char* kModelFile = "model.safetensors";

// Number of the block that the matrix of a linear layer belongs to; other tensors have none.
std::optional<std::int64_t> block_of(const io::TensorView& tensor) {
  constexpr std::string_view kPrefix = "blocks.";
  if (tensor.shape.size() != 2 || tensor.dtype != io::DType::kF32 || !tensor.name.starts_with(kPrefix)) return {};
  const std::size_t begin = kPrefix.size(), end = tensor.name.find('.', begin);
  if (end == std::string::npos || end == begin || tensor.name.find_first_not_of("0123456789", begin) != end) return {};
  return std::stoll(tensor.name.substr(begin, end - begin));
}

// The recipe each block was trained in up to `step`; blocks at the ends may have been kept in bf16.
quant::Recipe trained_recipe(const train::TrainConfig& config, std::int64_t step, std::int64_t block) {
  const bool kept = block < config.keep_first || block >= config.model.layers - config.keep_last;
  return kept ? quant::Recipe::named("bf16") : train::recipe_at(config, step - 1);
}

AlignedBuffer<float> copy_floats(const io::TensorView& tensor) {
  AlignedBuffer<float> values(tensor.data.size() / sizeof(float));
  if (values.size() > 0) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  return values;
}

std::string decibels(double snr) { return std::isfinite(snr) ? fmt::format("{:.2f}", snr) : "-"; }

struct WeightReport {
  std::string text;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
};

WeightReport report_weights(const io::CheckpointReader& reader, const InspectOptions& options) {
  const train::TrainConfig config =
      train::config_from_json(reader.user().value("config", nlohmann::json::object()), reader.path().string());
  const io::SafetensorsFile file = reader.safetensors(kModelFile);
  Table table({"layer", "shape", "format", "SNR dB", "clipped %", "max error"});
  WeightReport report;
  for (const io::TensorView& tensor : file.tensors()) {
    const auto block = block_of(tensor);
    if (!block) continue;
    const AlignedBuffer<float> values = copy_floats(tensor);
    const quant::Recipe recipe = options.recipe.value_or(trained_recipe(config, reader.step(), *block));
    const WeightError error = weight_error(values.span(), tensor.shape[0], tensor.shape[1], recipe);
    table.add({tensor.name, fmt::format("{}x{}", tensor.shape[0], tensor.shape[1]), error.format,
               decibels(error.stats.snr_db()), fmt::format("{:.3f}", 100 * error.stats.clipped_share()),
               fmt::format("{:.3g}", error.stats.max_error())});
    nlohmann::ordered_json row = {{"layer", tensor.name},
                                  {"shape", tensor.shape},
                                  {"format", error.format},
                                  {"snr_db", error.stats.snr_db()},
                                  {"clipped_share", error.stats.clipped_share()},
                                  {"max_error", error.stats.max_error()},
                                  {"relative_error", error.stats.relative_error()},
                                  {"non_finite", error.stats.non_finite()}};
    if (!std::isfinite(error.stats.snr_db())) row["snr_db"] = nullptr;  // nothing lost
    report.json.push_back(std::move(row));
  }
  if (!table.empty()) report.text = "\nweights as the forward products multiply them\n" + table.text();
  return report;
}

Inspection describe_checkpoint(const io::CheckpointReader& reader, const InspectOptions& options) {
  Inspection inspection;
  inspection.json = {{"kind", "checkpoint"}, {"path", reader.path().string()}, {"step", reader.step()}};
  Table files({"file", "bytes"});
  nlohmann::ordered_json& listed = inspection.json["files"] = nlohmann::ordered_json::object();
  for (const std::string& name : reader.files()) {
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(reader.path() / name));
    files.add({name, format_count(bytes)});
    listed[name] = bytes;
  }
  inspection.text = fmt::format("checkpoint  {}, step {}, all checksums right\n\n{}", reader.path().string(),
                                reader.step(), files.text());
  Table facts({"fact", "value"});
  for (const auto& [section, value] : reader.user().items()) {
    if (section == "config") continue;  // config.toml and --json have it
    if (!value.is_object()) {
      facts.add({section, value.is_string() ? value.get<std::string>() : value.dump()});
      continue;
    }
    for (const auto& [key, part] : value.items())
      facts.add({fmt::format("{}.{}", section, key), part.is_string() ? part.get<std::string>() : part.dump()});
  }
  if (!facts.empty()) inspection.text += fmt::format("\n{}", facts.text());
  inspection.json["user"] = reader.user();
  if (reader.contains(kModelFile)) {
    WeightReport weights = report_weights(reader, options);
    inspection.text += weights.text;
    inspection.json["weights"] = std::move(weights.json);
  }
  return inspection;
}

}  // namespace

Inspection inspect_checkpoint(const std::filesystem::path& path, const InspectOptions& options) {
  return describe_checkpoint(io::open_checkpoint(path), options);
}

Inspection inspect_run(const std::filesystem::path& path, const InspectOptions& options) {
  Inspection inspection;
  inspection.json = {
      {"kind", "run"}, {"path", path.string()}, {"config", inspect_config(path / "config.toml").json["config"]}};
  inspection.text = fmt::format("run  {}\n", path.string());
  if (std::filesystem::exists(path / "metrics.jsonl")) {
    Inspection metrics = inspect_metrics(path / "metrics.jsonl");
    inspection.text += metrics.text;
    inspection.json["metrics"] = std::move(metrics.json);
  }
  if (std::filesystem::exists(path / "summary.json")) {
    const auto summary = inspect_json(path / "summary.json").json["content"];
    inspection.text += fmt::format("summary  {}\n", summary.dump());
    inspection.json["summary"] = summary;
  }
  const io::CheckpointStore store(path / "checkpoints");
  inspection.json["checkpoints"] = store.steps();
  if (const auto newest = store.open_latest_valid()) {
    Inspection checkpoint = describe_checkpoint(*newest, options);
    inspection.text += fmt::format("\n{} checkpoint{}, the newest valid one:\n{}", store.steps().size(),
                                   store.steps().size() == 1 ? "" : "s", checkpoint.text);
    inspection.json["newest_checkpoint"] = std::move(checkpoint.json);
  }
  return inspection;
}

}  // namespace tessera::cli
