#pragma once
// Quality of a model on a token file: mean cross-entropy over every token that is a target, and what follows from it.
#include <cstdint>
#include <optional>
#include <string>

#include "tessera/data/loader.h"
#include "tessera/nn/models/gpt.h"

namespace tessera::train {

struct EvaluatorOptions {
  std::int64_t batch = 16;   ///< sequences at a time
  std::int64_t context = 0;  ///< tokens per sequence
  bool document_boundaries = false;
  std::int64_t batches = 0;  ///< so many of the file's first batches; 0: all
  bool accuracy = false;     ///< counts right guesses too, at the price of a second forward pass
};

struct Evaluation {
  std::int64_t tokens = 0;                   ///< targets
  double loss = 0;                           ///< nats per token
  double perplexity = 0;                     ///< e^loss
  std::optional<double> bits_per_byte = {};  ///< of tokenizers whose tokens have known length: "byte"
  std::optional<double> accuracy = {};       ///< share of targets that had the largest logit (of equals the lowest id)
};

/// The same batches at every call.
class Evaluator {
 public:
  /// Opens and verifies the file; throws Error as data::EvaluationLoader.
  Evaluator(const std::string& path, const EvaluatorOptions& options);

  /// Without gradients and dropout. Throws Error when the model's vocabulary or context is too small, or no token of
  /// the batches has a target.
  Evaluation evaluate(nn::Gpt& model, nn::UnitRunner& runner) const;

  const data::Vocabulary& vocabulary() const { return loader_.vocabulary(); }
  std::int64_t batches() const;

 private:
  EvaluatorOptions options_;
  data::EvaluationLoader loader_;
};

}  // namespace tessera::train
