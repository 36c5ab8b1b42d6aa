#include "tessera/train/evaluator.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/data/tokenizer.h"
#include "tessera/train/token_batch.h"

namespace tessera::train {
namespace {

using torch::Tensor;

// Targets whose text is one byte; the byte tokenizer's others are ends of documents, which are no text.
std::int64_t count_bytes(const data::Batch& batch) {
  std::int64_t count = 0;
  for (const std::int64_t target : batch.targets) count += target >= 0 && target != data::ByteTokenizer::kEndOfText;
  return count;
}

std::int64_t count_targets(const data::Batch& batch) {
  std::int64_t count = 0;
  for (const std::int64_t target : batch.targets) count += target >= 0;
  return count;
}

// Sequence by sequence, so that the logits of one sequence at most exist.
std::int64_t count_right(const nn::TokenBatch& batch, nn::Gpt& model, nn::UnitRunner& runner) {
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < batch.inputs.size(0); ++i) {
    const Tensor documents = batch.documents.defined() ? batch.documents.narrow(0, i, 1) : Tensor();
    const Tensor logits = model->logits(batch.inputs.narrow(0, i, 1), runner, {}, documents);
    right += logits.argmax(-1).eq(batch.targets.narrow(0, i, 1)).sum().item<std::int64_t>();
  }
  return right;
}

}  // namespace

Evaluator::Evaluator(const std::string& path, const EvaluatorOptions& options)
    : options_(options),
      loader_(
          path,
          {.batch = options.batch, .context = options.context, .document_boundaries = options.document_boundaries}) {}

std::int64_t Evaluator::batches() const {
  const std::int64_t all = loader_.batches();
  return options_.batches > 0 ? std::min(options_.batches, all) : all;
}

Evaluation Evaluator::evaluate(nn::Gpt& model, nn::UnitRunner& runner) const {
  TESSERA_CHECK(vocabulary().size == model->options().vocabulary,
                "the evaluation file's vocabulary is {}, the model's is {}", vocabulary().size,
                model->options().vocabulary);
  TESSERA_CHECK(options_.context <= model->options().context, "the evaluation's context is {}, the model's is {}",
                options_.context, model->options().context);
  const torch::NoGradGuard no_grad;
  const bool bytes_known = vocabulary().tokenizer == data::ByteTokenizer::kName;
  Evaluation result;
  double nats = 0;
  std::int64_t bytes = 0, right = 0;
  for (std::int64_t i = 0; i < batches(); ++i) {
    data::Batch batch = loader_.batch(i);
    const std::int64_t targets = count_targets(batch);
    if (targets == 0) continue;  // nothing but ends of documents
    bytes += count_bytes(batch);
    const nn::TokenBatch tokens = token_batch(batch);
    nats += model->loss(tokens, runner, {}).item<double>() * static_cast<double>(targets);
    if (options_.accuracy) right += count_right(tokens, model, runner);
    result.tokens += targets;
  }
  TESSERA_CHECK(result.tokens > 0, "no token of the {} evaluation batches has a target", batches());
  const auto tokens = static_cast<double>(result.tokens);
  result.loss = nats / tokens;
  result.perplexity = std::exp(result.loss);
  if (bytes_known && bytes > 0) result.bits_per_byte = nats / std::log(2.0) / static_cast<double>(bytes);
  if (options_.accuracy) result.accuracy = static_cast<double>(right) / tokens;
  return result;
}

}  // namespace tessera::train
