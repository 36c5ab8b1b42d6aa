#include "tessera/train/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/check.h"

namespace tessera::train {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<float> kLogits{0.5f, 2.0f, -1.0f, 2.0f, 1.0f};

std::vector<std::int64_t> support(const std::vector<float>& logits, const SamplingOptions& options) {
  std::vector<std::int64_t> ids;
  for (const Candidate& candidate : candidates(logits, options)) ids.push_back(candidate.id);
  return ids;
}

std::string error_of(const std::vector<float>& logits, const SamplingOptions& options) {
  try {
    candidates(logits, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Sampling, CandidatesAreTheSoftmaxInFallingOrder) {
  const std::vector<Candidate> all = candidates(kLogits, {.temperature = 0.7});
  EXPECT_EQ(support(kLogits, {.temperature = 0.7}), (std::vector<std::int64_t>{1, 3, 4, 0, 2}));
  double sum = 0;
  for (const float logit : kLogits) sum += std::exp(logit / 0.7);
  double total = 0;
  for (const Candidate& candidate : all) {
    // Each side rounds a handful of times in double.
    EXPECT_NEAR(candidate.probability, std::exp(kLogits[static_cast<std::size_t>(candidate.id)] / 0.7) / sum, 1e-14);
    total += candidate.probability;
  }
  EXPECT_NEAR(total, 1, 1e-14);
}

TEST(Sampling, TopKKeepsTheLargestAndTheLowerOfEqualIds) {
  EXPECT_EQ(support(kLogits, {.top_k = 1}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(support(kLogits, {.top_k = 3}), (std::vector<std::int64_t>{1, 3, 4}));
  EXPECT_EQ(support(kLogits, {.top_k = 99}).size(), kLogits.size());
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const float step = std::log(2.0f);
  const std::vector<float> logits{0, 2 * step, step, 0};
  EXPECT_EQ(support(logits, {.top_p = 0.4}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(support(logits, {.top_p = 0.6}), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(support(logits, {.top_p = 0.8}), (std::vector<std::int64_t>{1, 2, 0}));
  EXPECT_EQ(support(logits, {.top_p = 0.9}).size(), 4u);
  EXPECT_EQ(support(logits, {.top_p = 1}).size(), 4u);
  EXPECT_EQ(support(logits, {.top_p = 1e-9}), (std::vector<std::int64_t>{1}));
  // After top-k 2 the shares are 2/3 and 1/3.
  EXPECT_EQ(support(logits, {.top_k = 2, .top_p = 0.6}), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(support(logits, {.top_k = 2, .top_p = 0.7}), (std::vector<std::int64_t>{1, 2}));
}

TEST(Sampling, TemperatureZeroAndTopOneAreGreedy) {
  for (std::uint64_t position = 0; position < 100; ++position) {
    EXPECT_EQ(sample_token(kLogits, {.temperature = 0, .seed = position}, position), 1);
    EXPECT_EQ(sample_token(kLogits, {.temperature = 3, .top_k = 1, .seed = position}, position), 1);
  }
}

TEST(Sampling, IsAFunctionOfSeedAndPosition) {
  std::vector<std::int64_t> first, again, other;
  for (std::uint64_t position = 0; position < 64; ++position) {
    first.push_back(sample_token(kLogits, {.seed = 5}, position));
    again.push_back(sample_token(kLogits, {.seed = 5}, position));
    other.push_back(sample_token(kLogits, {.seed = 6}, position));
  }
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Sampling, FrequenciesAreTheProbabilities) {
  constexpr int kDraws = 20000;
  const SamplingOptions options{.temperature = 1.3, .seed = 17};
  std::vector<int> counts(kLogits.size());
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<std::size_t>(sample_token(kLogits, options, static_cast<std::uint64_t>(i)))];
  for (const Candidate& candidate : candidates(kLogits, options)) {
    const double p = candidate.probability, deviation = std::sqrt(p * (1 - p) * kDraws);
    // 5 standard deviations: a right sampler fails one seed in a million.
    EXPECT_NEAR(counts[static_cast<std::size_t>(candidate.id)], p * kDraws, 5 * deviation) << candidate.id;
  }
}

TEST(Sampling, ImpossibleTokensAreNeverDrawn) {
  const std::vector<float> logits{-kInfinity, 0, -kInfinity};
  EXPECT_EQ(support(logits, {}), (std::vector<std::int64_t>{1}));
}

TEST(Sampling, WrongInputIsASentence) {
  EXPECT_EQ(error_of(kLogits, {.temperature = -1}), "temperature is -1, expected a number of at least 0");
  EXPECT_EQ(error_of(kLogits, {.top_k = -1}), "top-k is -1, expected a whole number of at least 0");
  EXPECT_EQ(error_of(kLogits, {.top_p = 0}), "top-p is 0, expected a number above 0 and at most 1");
  EXPECT_EQ(error_of({0, std::nanf("")}, {}), "the logit of token 1 is not a number");
  EXPECT_EQ(error_of({kInfinity}, {}), "the logit of token 0 is infinite");
  EXPECT_EQ(error_of({-kInfinity, -kInfinity}, {}), "no token can be drawn: none of the 2 logits is finite");
  EXPECT_EQ(error_of({}, {}), "no token can be drawn: none of the 0 logits is finite");
}

}  // namespace
}  // namespace tessera::train
