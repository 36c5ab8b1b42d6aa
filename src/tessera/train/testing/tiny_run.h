#pragma once
// A run that takes a second: a text to learn, a model of two blocks, and ways to compare what runs leave behind.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/philox.h"
#include "tessera/data/token_file.h"
#include "tessera/data/tokenizer.h"
#include "tessera/train/config.h"

namespace tessera::testing {

/// A token file of `words` words out of a few, in an order drawn from the seed; a document every 50 words.
inline std::filesystem::path write_tokens(const std::filesystem::path& path, std::int64_t words = 2000,
                                          std::uint64_t seed = 1) {
  static constexpr const char* kWords[] = {"the ", "small ", "tile ", "of ", "a ", "mosaic ", "shines ", "red "};
  const data::ByteTokenizer tokenizer;
  data::TokenFileWriter writer(path, {data::ByteTokenizer::kVocabulary, std::string(data::ByteTokenizer::kName),
                                      data::ByteTokenizer::kEndOfText});
  for (std::int64_t i = 0; i < words; ++i) {
    const auto counter = static_cast<std::uint32_t>(i);
    writer.append(tokenizer.encode(kWords[philox(philox_key(seed, "words", "test"), {counter, 0, 0, 0})[0] % 8]));
    if (i % 50 == 49) writer.append(data::ByteTokenizer::kEndOfText);
  }
  writer.commit();
  return path;
}

/// Data in `directory` (written when missing), the run in directory/name.
inline train::TrainConfig tiny_config(const std::filesystem::path& directory, const std::string& name = "run") {
  train::TrainConfig config;
  config.out = (directory / name).string();
  config.data.train = {(directory / "train.tok").string()};
  config.data.validation = (directory / "validation.tok").string();
  if (!path_exists(config.data.train[0])) write_tokens(config.data.train[0]);
  if (!path_exists(config.data.validation)) write_tokens(config.data.validation, 200, 2);
  config.model = {.layers = 2, .heads = 2, .width = 32, .context = 32};
  config.steps = 20;
  config.batch = 4;
  config.schedule.warmup_steps = 5;
  config.eval.every = 0;
  config.checkpoint = {.every = 0, .keep = 0};
  config.log.every = 0;
  config.sample.when = "never";
  config.seed = 3;
  return config;
}

/// Every regular file below `root` and its content.
inline std::map<std::string, std::string> folder_contents(const std::filesystem::path& root) {
  std::map<std::string, std::string> contents;
  if (!path_exists(root)) return contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.is_regular_file()) contents[entry.path().lexically_relative(root).string()] = read_file(entry.path());
  return contents;
}

/// The tensors of two checkpoints are the same bytes.
inline void expect_equal_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b) {
  for (const char* file : {"model.safetensors", "optimizer.safetensors"})
    EXPECT_TRUE(read_file(a / file) == read_file(b / file)) << a << " and " << b << " differ in " << file;
}

inline std::vector<nlohmann::json> read_metrics(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

/// metrics.jsonl of two runs say the same but for times and memory.
inline void expect_equal_metrics(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto lines = [](const std::filesystem::path& run) {
    std::vector<nlohmann::json> all = read_metrics(run);
    for (nlohmann::json& line : all)
      for (const char* key : {"tokens_per_s", "step_s", "eval_s", "peak_rss_bytes"}) line.erase(key);
    return all;
  };
  EXPECT_EQ(lines(a), lines(b));
}

}  // namespace tessera::testing
