#pragma once
// Text from a model, token by token, with a key/value cache. When the context is full, generation goes on from its
// last half: the cache is built anew from the last context / 2 tokens (positions are learned, so they cannot slide).
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "tessera/nn/models/gpt.h"
#include "tessera/train/sampling.h"

namespace tessera::train {

struct GenerationOptions {
  SamplingOptions sampling = {};
  std::int64_t tokens = 256;                    ///< to generate at most
  std::optional<std::int64_t> stop_token = {};  ///< ends generation; is part of the result
};

/// Called with every generated token; returns false to stop.
using TokenCallback = std::function<bool(std::int64_t id)>;

/// Continue `prompt` (at least one id; of a longer one than the context its tail is seen) and return the new ids.
/// Throws Error for an empty prompt, ids outside the vocabulary, invalid options.
std::vector<std::int64_t> generate(nn::Gpt& model, std::span<const std::int64_t> prompt,
                                   const GenerationOptions& options, const TokenCallback& on_token = {});

}  // namespace tessera::train
