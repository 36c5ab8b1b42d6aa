// Single files: token file, safetensors, config.toml, metrics.jsonl, JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "inspect/report.h"
#include "table.h"
#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/base/file.h"
#include "tessera/data/token_file.h"
#include "tessera/io/safetensors.h"
#include "tessera/train/config.h"
#include "train_options.h"

namespace tessera::cli {
namespace {

constexpr std::string_view kTokenMagic = "TSRATOK\n";

bool starts_with_magic(const std::filesystem::path& path) {
  std::array<char, kTokenMagic.size()> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  return std::string_view(begin.data(), begin.size()) == kTokenMagic;
}

nlohmann::ordered_json parse_json_line(std::string_view text, const std::filesystem::path& path, std::int64_t line) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  TESSERA_CHECK(!json.is_discarded(), "{}:{}: this is no JSON", path.string(), line);
  return json;
}

}  // namespace

Inspection inspect_token_file(const std::filesystem::path& path, const InspectOptions& options) {
  const data::TokenFile file(path, options.verify ? data::Verify::kAll : data::Verify::kHeader);
  const data::Vocabulary& vocabulary = file.vocabulary();
  const char* state = options.verify ? "verified" : "not verified";
  std::string end = vocabulary.end_of_text < 0 ? "none" : std::to_string(vocabulary.end_of_text);
  return {
      fmt::format("token file   {}\ntokenizer    {}\nvocabulary   {}, end of text {}\ntokens       {}\n"
                  "documents    {}\nbytes/token  {}\nchecksum     {} ({})\n",
                  path.string(), vocabulary.tokenizer, format_count(vocabulary.size), end, format_count(file.tokens()),
                  format_count(file.documents()), file.bytes_per_token(), checksum_text(file.checksum()), state),
      {{"kind", "token file"},
       {"path", path.string()},
       {"tokenizer", vocabulary.tokenizer},
       {"vocabulary", vocabulary.size},
       {"end_of_text", vocabulary.end_of_text},
       {"tokens", file.tokens()},
       {"documents", file.documents()},
       {"bytes_per_token", file.bytes_per_token()},
       {"checksum", checksum_text(file.checksum())},
       {"verified", options.verify}}};
}

Inspection inspect_safetensors(const std::filesystem::path& path) {
  const io::SafetensorsFile file(path);
  Table table({"tensor", "dtype", "shape", "bytes"});
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  std::int64_t elements = 0, bytes = 0;
  for (const io::TensorView& tensor : file.tensors()) {
    table.add({tensor.name, std::string(io::dtype_name(tensor.dtype)),
               fmt::format("[{}]", fmt::join(tensor.shape, ", ")),
               format_count(static_cast<std::int64_t>(tensor.data.size()))});
    tensors.push_back({{"name", tensor.name},
                       {"dtype", std::string(io::dtype_name(tensor.dtype))},
                       {"shape", tensor.shape},
                       {"bytes", tensor.data.size()}});
    elements += io::element_count(tensor.shape);
    bytes += static_cast<std::int64_t>(tensor.data.size());
  }
  std::string text = fmt::format("safetensors  {}\ntensors      {}, {} elements, {}\n", path.string(),
                                 file.tensors().size(), format_count(elements), format_bytes(bytes));
  for (const auto& [key, value] : file.metadata()) text += fmt::format("{} = {}\n", key, value);
  return {text + "\n" + table.text(),
          {{"kind", "safetensors"}, {"path", path.string()}, {"metadata", file.metadata()}, {"tensors", tensors}}};
}

Inspection inspect_config(const std::filesystem::path& path) {
  train::TrainConfig config;
  apply_toml(config, read_file(path), path.string());
  Table table({"key", "value"});
  for (const train::Key& key : train::config_keys())
    if (key.saved) table.add({key.name, train::value_text(config, key)});
  return {fmt::format("configuration  {}\n\n{}", path.string(), table.text()),
          {{"kind", "configuration"}, {"path", path.string()}, {"config", train::config_json(config)}}};
}

Inspection inspect_metrics(const std::filesystem::path& path) {
  const std::string all = read_file(path);
  nlohmann::ordered_json last_step, last_evaluation;
  std::int64_t line = 0, steps = 0, evaluations = 0;
  for (std::size_t begin = 0; begin < all.size();) {
    const std::size_t end = std::min(all.find('\n', begin), all.size());
    auto json = parse_json_line(std::string_view(all).substr(begin, end - begin), path, ++line);
    const bool evaluation = json.contains("val_loss");
    (evaluation ? evaluations : steps) += 1;
    (evaluation ? last_evaluation : last_step) = std::move(json);
    begin = end + 1;
  }
  std::string text = fmt::format("metrics  {}: {} steps, {} evaluations\n", path.string(), steps, evaluations);
  if (!last_step.is_null()) text += fmt::format("last step        {}\n", last_step.dump());
  if (!last_evaluation.is_null()) text += fmt::format("last evaluation  {}\n", last_evaluation.dump());
  return {text,
          {{"kind", "metrics"},
           {"path", path.string()},
           {"steps", steps},
           {"evaluations", evaluations},
           {"last_step", last_step},
           {"last_evaluation", last_evaluation}}};
}

Inspection inspect_json(const std::filesystem::path& path) {
  const auto json = parse_json_line(read_file(path), path, 1);
  return {json.dump(2) + "\n", {{"kind", "json"}, {"path", path.string()}, {"content", json}}};
}

Inspection inspect_path(const std::filesystem::path& path, const InspectOptions& options) {
  TESSERA_CHECK(std::filesystem::exists(path), "{} does not exist", path.string());
  if (std::filesystem::is_directory(path)) {
    if (std::filesystem::exists(path / "manifest.json")) return inspect_checkpoint(path, options);
    if (std::filesystem::exists(path / "config.toml")) return inspect_run(path, options);
    fail("{} is a folder without manifest.json (a checkpoint) or config.toml (a run)", path.string());
  }
  const std::string extension = path.extension().string();
  if (extension == ".tok" || starts_with_magic(path)) return inspect_token_file(path, options);
  if (extension == ".safetensors") return inspect_safetensors(path);
  if (extension == ".toml") return inspect_config(path);
  if (extension == ".jsonl") return inspect_metrics(path);
  if (extension == ".json") return inspect_json(path);
  fail("{} is no file of ours: expected a token file, .safetensors, .toml, .jsonl or .json", path.string());
}

}  // namespace tessera::cli
