#include "tessera/train/sampling.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/base/philox.h"

namespace tessera::train {
namespace {

// Uniform in [0, 1) with 53 bits.
double uniform(std::uint64_t seed, std::uint64_t position) {
  const PhiloxBlock words =
      philox(philox_key(seed, "generate", "sample"),
             {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0});
  return static_cast<double>((std::uint64_t{words[0]} << 32 | words[1]) >> 11) * 0x1p-53;
}

// Ids by falling logit, of equals the lower id first; the first `count` of them.
std::vector<std::int64_t> largest(std::span<const float> logits, std::int64_t count) {
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    TESSERA_CHECK(!std::isnan(logits[i]), "the logit of token {} is not a number", i);
    TESSERA_CHECK(logits[i] < HUGE_VALF, "the logit of token {} is infinite", i);
    if (std::isfinite(logits[i])) ids.push_back(static_cast<std::int64_t>(i));
  }
  TESSERA_CHECK(!ids.empty(), "no token can be drawn: none of the {} logits is finite", logits.size());
  count = std::min(count, static_cast<std::int64_t>(ids.size()));
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), before);
  ids.resize(static_cast<std::size_t>(count));
  return ids;
}

}  // namespace

void validate(const SamplingOptions& options) {
  TESSERA_CHECK(options.temperature >= 0 && std::isfinite(options.temperature),
                "temperature is {}, expected a number of at least 0", options.temperature);
  TESSERA_CHECK(options.top_k >= 0, "top-k is {}, expected a whole number of at least 0", options.top_k);
  TESSERA_CHECK(options.top_p > 0 && options.top_p <= 1, "top-p is {}, expected a number above 0 and at most 1",
                options.top_p);
}

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingOptions& options) {
  validate(options);
  const bool greedy = options.temperature == 0;
  const auto all = static_cast<std::int64_t>(logits.size());
  const std::vector<std::int64_t> ids = largest(logits, greedy ? 1 : options.top_k > 0 ? options.top_k : all);
  if (greedy) return {{ids.front(), 1.0}};

  std::vector<Candidate> kept;
  const double top = logits[static_cast<std::size_t>(ids.front())];
  double sum = 0;
  for (const std::int64_t id : ids) {
    kept.push_back({id, std::exp((logits[static_cast<std::size_t>(id)] - top) / options.temperature)});
    sum += kept.back().probability;
  }
  if (options.top_p < 1) {
    double share = 0;
    std::size_t count = 0;
    while (count < kept.size() && share < options.top_p * sum) share += kept[count++].probability;
    kept.resize(count);
    sum = share;
  }
  for (Candidate& candidate : kept) candidate.probability /= sum;
  return kept;
}

std::int64_t sample_token(std::span<const float> logits, const SamplingOptions& options, std::uint64_t position) {
  const std::vector<Candidate> kept = candidates(logits, options);
  double left = uniform(options.seed, position);
  for (const Candidate& candidate : kept) {
    if (left < candidate.probability) return candidate.id;
    left -= candidate.probability;
  }
  return kept.back().id;  // the probabilities' sum is 1 up to rounding
}

}  // namespace tessera::train
