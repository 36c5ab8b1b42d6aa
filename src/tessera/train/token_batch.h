#pragma once
// The loader's batch as the model takes it.
#include "tessera/data/loader.h"
#include "tessera/nn/models/gpt.h"

namespace tessera::train {

/// Views into `batch`, which must outlive them.
inline nn::TokenBatch token_batch(data::Batch& batch) {
  const std::vector<std::int64_t> shape{batch.batch, batch.context};
  nn::TokenBatch tokens;
  tokens.inputs = torch::from_blob(batch.inputs.data(), shape, torch::kInt64);
  tokens.targets = torch::from_blob(batch.targets.data(), shape, torch::kInt64);
  if (!batch.documents.empty()) tokens.documents = torch::from_blob(batch.documents.data(), shape, torch::kInt32);
  return tokens;
}

}  // namespace tessera::train
