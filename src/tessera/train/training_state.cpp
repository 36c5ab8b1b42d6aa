#include "tessera/train/training_state.h"

#include <cmath>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/optim/grad_clip.h"
#include "tessera/train/resume.h"
#include "tessera/train/token_batch.h"

namespace tessera::train {
namespace {

data::LoaderOptions loader_options(const TrainConfig& config) {
  data::LoaderOptions options;
  options.batch = config.batch;
  options.context = config.model.context;
  options.seed = static_cast<std::uint64_t>(config.seed);
  options.shuffle = config.data.shuffle;
  options.document_boundaries = config.data.document_boundaries;
  return options;
}

std::vector<DataFacts> data_facts(const TrainConfig& config) {
  std::vector<DataFacts> facts;
  for (const data::Source& source : training_sources(config)) {
    const data::TokenFile file(source.path, data::Verify::kHeader);  // the loader has verified it
    facts.push_back({source.path, checksum_text(file.checksum()), file.tokens(), source.weight});
  }
  return facts;
}

ModelFacts first_facts(const TrainConfig& config, const data::Vocabulary& vocabulary) {
  ModelFacts facts;
  facts.config = config;
  facts.vocabulary = vocabulary;
  facts.options = gpt_options(config, vocabulary.size);
  facts.data = data_facts(config);
  return facts;
}

optim::AdamW make_optimizer(const TrainConfig& config, const nn::Gpt& model) {
  std::vector<optim::ParameterInfo> infos;
  for (const auto& [name, tensor] : named_parameters(model))
    infos.push_back({name, tensor.numel(), optim::decays({tensor.sizes().data(), tensor.sizes().size()})});
  const TrainConfig::Optimizer& o = config.optimizer;
  return optim::AdamW({.beta1 = static_cast<float>(o.beta1),
                       .beta2 = static_cast<float>(o.beta2),
                       .eps = static_cast<float>(o.eps),
                       .weight_decay = static_cast<float>(o.weight_decay)},
                      std::move(infos));
}

optim::Schedule make_schedule(const TrainConfig& config) {
  const double peak = config.optimizer.lr;
  return optim::Schedule({.name = config.schedule.name,
                          .peak_lr = peak,
                          .warmup_steps = config.schedule.warmup_steps,
                          .total_steps = config.steps,
                          .min_lr_fraction = peak > 0 ? config.schedule.min_lr / peak : 0});
}

std::span<float> values(const torch::Tensor& tensor) {
  return {tensor.mutable_data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

TrainingState::TrainingState(const TrainConfig& config)
    : config_(config),
      loader_(training_sources(config), loader_options(config)),
      facts_(first_facts(config, loader_.vocabulary())),
      model_(facts_.options, static_cast<std::uint64_t>(config.seed)),
      runner_(config.recompute),
      parameters_(named_parameters(model_)),
      optimizer_(make_optimizer(config, model_)),
      schedule_(make_schedule(config)) {
  facts_.parameters = model_->parameter_count();
}

StepMetrics TrainingState::step() {
  RunProgress& p = facts_.progress;
  StepMetrics metrics;
  metrics.lr = schedule_.lr_at(p.step);
  metrics.tokens = config_.batch * config_.model.context * config_.accumulate;
  model_->set_recipe(recipe_at(config_, p.step));
  metrics.loss = accumulate_gradients();
  metrics.skipped = !std::isfinite(metrics.loss) || !update(static_cast<float>(metrics.lr), metrics.grad_norm);
  if (!std::isfinite(metrics.loss)) metrics.grad_norm = std::numeric_limits<double>::quiet_NaN();
  metrics.step = ++p.step;
  p.samples = loader_.position();
  p.updates = optimizer_.steps();
  p.skipped_in_a_row = metrics.skipped ? p.skipped_in_a_row + 1 : 0;
  if (!metrics.skipped) p.loss = metrics.loss;
  return metrics;
}

// Mean loss of the micro-batches; their mean gradient is left in the parameters.
double TrainingState::accumulate_gradients() {
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad().reset();
  double sum = 0;
  for (std::int64_t i = 0; i < config_.accumulate; ++i) {
    data::Batch batch = loader_.next();
    nn::UnitContext context;
    context.noise = {static_cast<std::uint64_t>(config_.seed), static_cast<std::uint32_t>(facts_.progress.step),
                     static_cast<std::uint32_t>(i)};
    context.training = true;
    const torch::Tensor loss = model_->loss(token_batch(batch), runner_, context);
    sum += loss.item<double>();
    loss.backward(torch::full_like(loss, 1.0 / static_cast<double>(config_.accumulate)));
  }
  return sum / static_cast<double>(config_.accumulate);
}

// False, with nothing changed, when the gradient is not finite.
bool TrainingState::update(float lr, double& grad_norm) {
  std::vector<torch::Tensor> gradients;  // keeps what contiguous() may have made
  std::vector<std::span<const float>> spans;
  std::vector<optim::Parameter> updates;
  for (const auto& [name, parameter] : parameters_) {
    TESSERA_DCHECK(parameter.grad().defined());
    gradients.push_back(parameter.grad().contiguous());
    const auto size = static_cast<std::size_t>(parameter.numel());
    spans.emplace_back(gradients.back().const_data_ptr<float>(), size);
    updates.push_back({name, values(parameter), spans.back()});
  }
  const double limit = config_.clip > 0 ? config_.clip : std::numeric_limits<double>::infinity();
  const optim::Clip clip = optim::clip(optim::sum_of_squares(spans), limit);
  grad_norm = clip.norm;
  if (!clip.finite) return false;
  optimizer_.step(updates, lr, clip.scale);
  mark_changed(model_);
  return true;
}

NamedSpans TrainingState::moments() {
  NamedSpans all;
  for (const auto& [name, tensor] : parameters_) {
    const optim::Moments moments = optimizer_.moments(name);
    all.push_back({"m." + name, tensor.sizes().vec(), moments.m});
    all.push_back({"v." + name, tensor.sizes().vec(), moments.v});
  }
  return all;
}

void TrainingState::save(io::CheckpointWriter& writer) {
  write_model(writer, model_);
  std::vector<io::TensorView> views;
  for (const NamedSpan& moment : moments())
    views.push_back({moment.name, io::DType::kF32, moment.shape, std::as_bytes(moment.data)});
  writer.add_safetensors(kOptimizerFile, views);
}

void TrainingState::load(const io::CheckpointReader& reader) {
  const ModelFacts saved = read_facts(reader);
  check_same_run(facts_, saved, reader.path());
  read_model(reader, model_);
  read_tensors(reader.safetensors(kOptimizerFile), moments());
  optimizer_.set_steps(saved.progress.updates);
  loader_.seek(saved.progress.samples);
  facts_.progress = saved.progress;
  model_->set_recipe(saved.options.recipe);
}

}  // namespace tessera::train
