#pragma once
// Models in checkpoints: model.safetensors (parameters by name), optimizer.safetensors (AdamW's m and v) and the
// manifest's "user" object:
//   {"architecture": "gpt", "model": {layers, heads, width, context, vocabulary, tie_weights, bias, parameters},
//    "tokenizer": {name, vocabulary, end_of_text}, "config": {every key}, "data": [{path, checksum, tokens, weight}],
//    "progress": {step, samples, updates, skipped_in_a_row, evaluated, loss, val_loss}}
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/token_file.h"
#include "tessera/io/checkpoint_store.h"
#include "tessera/nn/models/gpt.h"
#include "tessera/train/config.h"

namespace tessera::train {

inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";

/// A training file as a checkpoint remembers it: known by its contents, wherever it lies.
struct DataFacts {
  std::string path, checksum;
  std::int64_t tokens = 0;
  double weight = 1;
};

/// Where a run stands.
struct RunProgress {
  std::int64_t step = 0;                           ///< steps done
  std::int64_t samples = 0;                        ///< sequences consumed: the loader's position
  std::int64_t updates = 0;                        ///< optimizer steps: steps minus skipped ones
  std::int64_t skipped_in_a_row = 0;               ///< non-finite steps just before
  std::int64_t evaluated = -1;                     ///< step of the last evaluation, -1: none
  std::optional<double> loss = {}, val_loss = {};  ///< last ones, if finite
};

/// The manifest's "user" object.
struct ModelFacts {
  nn::GptOptions options;
  std::int64_t parameters = 0;
  data::Vocabulary vocabulary;
  TrainConfig config;
  std::vector<DataFacts> data;
  RunProgress progress;
};

/// What a configuration asks of the model, for data with this vocabulary.
nn::GptOptions gpt_options(const TrainConfig& config, std::int64_t vocabulary);

/// The model's fp32 parameters by name, in the order of registration.
std::vector<std::pair<std::string, torch::Tensor>> named_parameters(const nn::Gpt& model);

/// A place for an fp32 tensor.
struct NamedSpan {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<float> data;
};
using NamedSpans = std::vector<NamedSpan>;

/// Copy tensors from a file that must hold these and no others; throws Error that names the first missing, surplus or
/// differing one, before anything is copied.
void read_tensors(const io::SafetensorsFile& file, const NamedSpans& wanted);

/// Write the model into an open checkpoint.
void write_model(io::CheckpointWriter& writer, const nn::Gpt& model);
nlohmann::json facts_json(const ModelFacts& facts);

/// Throws Error, with the path and key, for a manifest that is no model's.
ModelFacts read_facts(const io::CheckpointReader& reader);
/// Copy the parameters; errors as read_tensors.
void read_model(const io::CheckpointReader& reader, nn::Gpt& model);
/// Tell autograd and cached weight codes that the parameters were written to by pointer.
void mark_changed(nn::Gpt& model);

struct LoadedModel {
  nn::Gpt model{nullptr};
  ModelFacts facts;
  std::filesystem::path path;  ///< of the checkpoint
};

/// Load the model of a checkpoint folder (…/step-N), or the newest valid one of a run folder; nothing but the model is
/// read. `adjust` may change the numerics (recipe, head, activations) before the model is built. Throws Error when
/// there is none, it is damaged or is no model.
LoadedModel load_model(const std::filesystem::path& path, const std::function<void(nn::GptOptions&)>& adjust = {});

}  // namespace tessera::train
