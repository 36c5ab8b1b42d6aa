#include "tessera/train/model_io.h"

#include <cstring>
#include <set>

#include "tessera/base/check.h"

namespace tessera::train {
namespace {

using nlohmann::json;
using torch::Tensor;

constexpr const char* kArchitecture = "gpt";

// One value of a manifest; a wrong or missing one is named.
template <typename T>
T take(const json& object, const char* key, const std::string& name) {
  try {
    return object.at(key).get<T>();
  } catch (const json::exception& error) {
    fail("{}: the manifest's \"{}\" is missing or of the wrong type", name, key);
  }
}

json optional_json(const std::optional<double>& value) { return value ? json(*value) : json(); }

std::optional<double> take_optional(const json& object, const char* key, const std::string& name) {
  if (object.is_object() && object.contains(key) && object[key].is_null()) return {};
  return take<double>(object, key, name);
}

json model_json(const ModelFacts& facts) {
  const nn::GptOptions& o = facts.options;
  return {{"layers", o.layers},
          {"heads", o.heads},
          {"width", o.width},
          {"context", o.context},
          {"vocabulary", o.vocabulary},
          {"tie_weights", o.tie_weights},
          {"bias", o.bias},
          {"parameters", facts.parameters}};
}

void take_model(const json& model, const std::string& name, ModelFacts& facts) {
  nn::GptOptions& o = facts.options;
  o.layers = take<std::int64_t>(model, "layers", name);
  o.heads = take<std::int64_t>(model, "heads", name);
  o.width = take<std::int64_t>(model, "width", name);
  o.context = take<std::int64_t>(model, "context", name);
  o.vocabulary = take<std::int64_t>(model, "vocabulary", name);
  o.tie_weights = take<bool>(model, "tie_weights", name);
  o.bias = take<bool>(model, "bias", name);
  facts.parameters = take<std::int64_t>(model, "parameters", name);
}

json progress_json(const RunProgress& p) {
  return {{"step", p.step},
          {"samples", p.samples},
          {"updates", p.updates},
          {"skipped_in_a_row", p.skipped_in_a_row},
          {"evaluated", p.evaluated},
          {"loss", optional_json(p.loss)},
          {"val_loss", optional_json(p.val_loss)}};
}

RunProgress take_progress(const json& object, const std::string& name) {
  RunProgress p;
  p.step = take<std::int64_t>(object, "step", name);
  p.samples = take<std::int64_t>(object, "samples", name);
  p.updates = take<std::int64_t>(object, "updates", name);
  p.skipped_in_a_row = take<std::int64_t>(object, "skipped_in_a_row", name);
  p.evaluated = take<std::int64_t>(object, "evaluated", name);
  p.loss = take_optional(object, "loss", name);
  p.val_loss = take_optional(object, "val_loss", name);
  return p;
}

std::vector<std::int64_t> shape_of(const Tensor& tensor) { return tensor.sizes().vec(); }

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

// The run folder's checkpoints, or the folder itself.
io::CheckpointReader open_model_checkpoint(const std::filesystem::path& path) {
  if (path_exists(path / "manifest.json")) return io::open_checkpoint(path);
  TESSERA_CHECK(path_exists(path), "{} does not exist, expected a checkpoint or run folder", path.string());
  const io::CheckpointStore store(path / "checkpoints");
  TESSERA_CHECK(path_exists(store.root()),
                "{} is neither a checkpoint (it has no manifest.json) nor a run folder (it has "
                "no checkpoints/)",
                path.string());
  std::optional<io::CheckpointReader> reader = store.open_latest_valid();
  TESSERA_CHECK(reader.has_value(), "{} has no valid checkpoint", store.root().string());
  return std::move(*reader);
}

}  // namespace

nn::GptOptions gpt_options(const TrainConfig& config, std::int64_t vocabulary) {
  nn::GptOptions options;
  options.vocabulary = vocabulary;
  options.context = config.model.context;
  options.layers = config.model.layers;
  options.heads = config.model.heads;
  options.width = config.model.width;
  options.tie_weights = config.model.tie_weights;
  options.bias = config.model.bias;
  options.dropout = config.model.dropout;
  options.recipe = recipe_at(config, 0);
  options.head = head_recipe(config);
  options.keep_first = config.keep_first;
  options.keep_last = config.keep_last;
  options.activations = config.precision == "bf16" ? torch::kBFloat16 : torch::kFloat32;
  return options;
}

std::vector<std::pair<std::string, Tensor>> named_parameters(const nn::Gpt& model) {
  std::vector<std::pair<std::string, Tensor>> parameters;
  for (const auto& item : model->named_parameters())
    if (item.value().defined()) parameters.emplace_back(item.key(), item.value());
  return parameters;
}

void write_model(io::CheckpointWriter& writer, const nn::Gpt& model) {
  std::vector<io::TensorView> views;
  for (const auto& [name, tensor] : named_parameters(model)) {
    TESSERA_DCHECK(tensor.is_contiguous() && tensor.scalar_type() == torch::kFloat32);
    views.push_back(
        {name, io::DType::kF32, shape_of(tensor),
         std::as_bytes(std::span(tensor.const_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())))});
  }
  writer.add_safetensors(kModelFile, views, {{"format", "pt"}, {"architecture", kArchitecture}});
}

json facts_json(const ModelFacts& facts) {
  json files = json::array();
  for (const DataFacts& file : facts.data)
    files.push_back(
        {{"path", file.path}, {"checksum", file.checksum}, {"tokens", file.tokens}, {"weight", file.weight}});
  return {{"architecture", kArchitecture},
          {"model", model_json(facts)},
          {"tokenizer",
           {{"name", facts.vocabulary.tokenizer},
            {"vocabulary", facts.vocabulary.size},
            {"end_of_text", facts.vocabulary.end_of_text}}},
          {"config", config_json(facts.config)},
          {"data", files},
          {"progress", progress_json(facts.progress)}};
}

ModelFacts read_facts(const io::CheckpointReader& reader) {
  const std::string name = (reader.path() / "manifest.json").string();
  const json& user = reader.user();
  const auto architecture = take<std::string>(user, "architecture", name);
  TESSERA_CHECK(architecture == kArchitecture, "{}: the architecture is '{}', expected '{}'", name, architecture,
                kArchitecture);
  ModelFacts facts;
  facts.config = config_from_json(take<json>(user, "config", name), name);
  const json tokenizer = take<json>(user, "tokenizer", name);
  facts.vocabulary = {take<std::int64_t>(tokenizer, "vocabulary", name), take<std::string>(tokenizer, "name", name),
                      take<std::int64_t>(tokenizer, "end_of_text", name)};
  facts.options = gpt_options(facts.config, facts.vocabulary.size);
  take_model(take<json>(user, "model", name), name, facts);
  TESSERA_CHECK(facts.options.vocabulary == facts.vocabulary.size,
                "{}: the model's vocabulary is {}, the tokenizer's is {}", name, facts.options.vocabulary,
                facts.vocabulary.size);
  for (const json& file : take<json>(user, "data", name))
    facts.data.push_back({take<std::string>(file, "path", name), take<std::string>(file, "checksum", name),
                          take<std::int64_t>(file, "tokens", name), take<double>(file, "weight", name)});
  facts.progress = take_progress(take<json>(user, "progress", name), name);
  facts.options.recipe = recipe_at(facts.config, std::max<std::int64_t>(facts.progress.step - 1, 0));
  TESSERA_CHECK(facts.progress.step == reader.step(), "{}: the manifest is of step {}, its progress of step {}", name,
                reader.step(), facts.progress.step);
  return facts;
}

void read_tensors(const io::SafetensorsFile& file, const NamedSpans& wanted) {
  std::set<std::string_view> names;
  for (const NamedSpan& one : wanted) {
    names.insert(one.name);
    TESSERA_CHECK(file.contains(one.name), "{} lacks the tensor {}", file.name(), one.name);
    const io::TensorView& view = file.tensor(one.name);
    TESSERA_CHECK(view.dtype == io::DType::kF32, "{}: tensor {} is {}, expected F32", file.name(), one.name,
                  io::dtype_name(view.dtype));
    TESSERA_CHECK(view.shape == one.shape, "{}: tensor {} has shape {}, expected {}", file.name(), one.name,
                  shape_text(view.shape), shape_text(one.shape));
  }
  for (const io::TensorView& view : file.tensors())
    TESSERA_CHECK(names.contains(view.name), "{} has a tensor {} that the model lacks", file.name(), view.name);
  for (const NamedSpan& one : wanted) {
    const std::span<const std::byte> data = file.tensor(one.name).data;
    if (!data.empty()) std::memcpy(one.data.data(), data.data(), data.size());
  }
}

void read_model(const io::CheckpointReader& reader, nn::Gpt& model) {
  NamedSpans wanted;
  for (const auto& [name, tensor] : named_parameters(model))
    wanted.push_back(
        {name, shape_of(tensor), {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())}});
  read_tensors(reader.safetensors(kModelFile), wanted);
  mark_changed(model);
}

void mark_changed(nn::Gpt& model) {
  for (const auto& [name, tensor] : named_parameters(model)) tensor.unsafeGetTensorImpl()->bump_version();
}

LoadedModel load_model(const std::filesystem::path& path, const std::function<void(nn::GptOptions&)>& adjust) {
  const io::CheckpointReader reader = open_model_checkpoint(path);
  LoadedModel loaded;
  loaded.path = reader.path();
  loaded.facts = read_facts(reader);
  if (adjust) adjust(loaded.facts.options);
  loaded.model = nn::Gpt(loaded.facts.options, static_cast<std::uint64_t>(loaded.facts.config.seed));
  read_model(reader, loaded.model);
  loaded.model->eval();
  return loaded;
}

}  // namespace tessera::train
