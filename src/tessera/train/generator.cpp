#include "tessera/train/generator.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/nn/kv_cache.h"
#include "tessera/nn/local_runner.h"

namespace tessera::train {
namespace {

// Reads tokens into the cache and gives the logits that follow.
class Reader {
 public:
  explicit Reader(nn::Gpt& model) : model_(model), cache_(model->options().layers, model->options().context) {}

  /// `seen` is all text so far, of which the cache lacks the tail.
  torch::Tensor next(const std::vector<std::int64_t>& seen) {
    const std::int64_t context = model_->options().context, size = static_cast<std::int64_t>(seen.size());
    if (size - start_ > context) {
      start_ = size - std::max<std::int64_t>(context / 2, 1);
      cache_ = nn::KvCache(model_->options().layers, context);
    }
    const std::int64_t from = start_ + cache_.length();
    const torch::Tensor ids = torch::tensor(at::ArrayRef<std::int64_t>(seen.data() + from, size - from), torch::kInt64);
    return model_->next_logits(ids.unsqueeze(0), cache_, runner_).contiguous();
  }

 private:
  nn::Gpt& model_;
  nn::LocalRunner runner_;
  nn::KvCache cache_;
  std::int64_t start_ = 0;  // index in the text of the cache's first token
};

}  // namespace

std::vector<std::int64_t> generate(nn::Gpt& model, std::span<const std::int64_t> prompt,
                                   const GenerationOptions& options, const TokenCallback& on_token) {
  validate(options.sampling);
  TESSERA_CHECK(!prompt.empty(), "the prompt is empty, expected at least one token");
  TESSERA_CHECK(options.tokens >= 0, "tokens is {}, expected a whole number of at least 0", options.tokens);
  const std::int64_t vocabulary = model->options().vocabulary, context = model->options().context;
  for (const std::int64_t id : prompt)
    TESSERA_CHECK(id >= 0 && id < vocabulary, "the prompt has token {}, outside the vocabulary of {}", id, vocabulary);
  const torch::NoGradGuard no_grad;

  const std::span<const std::int64_t> tail = prompt.last(std::min(prompt.size(), static_cast<std::size_t>(context)));
  std::vector<std::int64_t> seen(tail.begin(), tail.end()), generated;
  Reader reader(model);
  while (static_cast<std::int64_t>(generated.size()) < options.tokens) {
    const torch::Tensor logits = reader.next(seen);
    const std::span<const float> row(logits.const_data_ptr<float>(), static_cast<std::size_t>(vocabulary));
    const std::int64_t id = sample_token(row, options.sampling, generated.size());
    seen.push_back(id);
    generated.push_back(id);
    if (on_token && !on_token(id)) break;
    if (id == options.stop_token) break;
  }
  return generated;
}

}  // namespace tessera::train
