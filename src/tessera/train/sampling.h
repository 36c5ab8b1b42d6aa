#pragma once
// Drawing the next token from logits. With temperature T > 0, p = softmax(logits / T); top-k keeps the k largest
// logits, top-p then the fewest of those whose share of what top-k left reaches p; of equals, the lower id first.
// Temperature 0 takes the largest logit. The draw for a position is philox(seed, position): replayable.
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::train {

struct SamplingOptions {
  double temperature = 1;  ///< >= 0
  std::int64_t top_k = 0;  ///< 0: all
  double top_p = 1;        ///< 0 < p <= 1
  std::uint64_t seed = 0;
};

/// Throws Error that names the option.
void validate(const SamplingOptions& options);

struct Candidate {
  std::int64_t id;
  double probability;
};

/// The tokens that can be drawn, most probable first; probabilities sum to 1. Throws Error when no logit is finite or
/// one is NaN.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options);

/// The token of `position`.
std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t position);

}  // namespace tessera::train
