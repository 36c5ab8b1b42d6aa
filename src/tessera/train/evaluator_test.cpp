#include "tessera/train/evaluator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/base/testing/temporary_directory.h"
#include "tessera/nn/local_runner.h"
#include "tessera/train/testing/tiny_run.h"

namespace tessera::train {
namespace {

using tessera::testing::TemporaryDirectory;
using tessera::testing::write_tokens;
using ::testing::HasSubstr;

constexpr std::int64_t kContext = 16;

nn::GptOptions options() {
  nn::GptOptions o;
  o.vocabulary = 257;
  o.context = kContext;
  o.layers = 2;
  o.heads = 2;
  o.width = 32;
  o.recipe = o.head = quant::Recipe::named("fp32");
  return o;
}

struct Expected {
  std::int64_t tokens = 0, right = 0, bytes = 0;
  double nats = 0;
};

// Window by window from the file, softmax in double; documents by running each one alone.
Expected evaluate_slowly(const data::TokenFile& file, std::int64_t windows, bool boundaries, nn::Gpt& model) {
  const torch::NoGradGuard no_grad;
  nn::LocalRunner runner;
  Expected expected;
  for (std::int64_t w = 0; w < windows; ++w) {
    torch::Tensor logits, ids = torch::empty({1, kContext}, torch::kInt64);
    for (std::int64_t i = 0; i < kContext; ++i) ids[0][i] = file.token(w * kContext + i);
    torch::Tensor documents = torch::zeros({1, kContext}, torch::kInt32);
    for (std::int64_t i = 1; i < kContext; ++i)
      documents[0][i] = documents[0][i - 1].item<int>() + (file.token(w * kContext + i - 1) == 256);
    logits = model->logits(ids, runner, {}, boundaries ? documents : torch::Tensor()).to(torch::kDouble).squeeze(0);
    for (std::int64_t i = 0; i < kContext; ++i) {
      const std::int64_t target = file.token(w * kContext + i + 1);
      if (boundaries && file.token(w * kContext + i) == 256) continue;
      const torch::Tensor row = logits[i];
      expected.nats += (row.logsumexp(0) - row[target]).item<double>();
      expected.right += row.argmax().item<std::int64_t>() == target;
      expected.bytes += target != 256;
      ++expected.tokens;
    }
  }
  return expected;
}

class Boundaries : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Both, Boundaries, ::testing::Bool());

TEST_P(Boundaries, AgreesWithSlowEvaluation) {
  const TemporaryDirectory directory;
  const std::string path = write_tokens(directory / "v.tok", 150).string();
  const data::TokenFile file(path);
  nn::Gpt model(options(), std::uint64_t{4});
  nn::LocalRunner runner;
  const std::int64_t windows = (file.tokens() - 1) / kContext;
  ASSERT_NE(windows % 5, 0);  // the last batch is smaller
  const Evaluator evaluator(path,
                            {.batch = 5, .context = kContext, .document_boundaries = GetParam(), .accuracy = true});
  const Evaluation evaluation = evaluator.evaluate(model, runner);
  const Expected expected = evaluate_slowly(file, windows, GetParam(), model);
  EXPECT_EQ(evaluation.tokens, expected.tokens);
  // A token's loss in fp32 rounds the logits' differences, exponentials and their sum over 257: below 512 eps of a loss
  // of about log 257; the mean of them is no further off.
  const double bound = 512 * std::numeric_limits<float>::epsilon() * std::log(257.0);
  EXPECT_NEAR(evaluation.loss, expected.nats / static_cast<double>(expected.tokens), bound);
  EXPECT_DOUBLE_EQ(evaluation.perplexity, std::exp(evaluation.loss));
  EXPECT_DOUBLE_EQ(evaluation.accuracy.value(),
                   static_cast<double>(expected.right) / static_cast<double>(expected.tokens));
  EXPECT_DOUBLE_EQ(
      evaluation.bits_per_byte.value(),
      evaluation.loss / std::log(2.0) * static_cast<double>(expected.tokens) / static_cast<double>(expected.bytes));
}

TEST(Evaluator, TakesTheFirstBatchesAndRepeats) {
  const TemporaryDirectory directory;
  const std::string path = write_tokens(directory / "v.tok", 300).string();
  nn::Gpt model(options(), std::uint64_t{4});
  nn::LocalRunner runner;
  const Evaluator evaluator(path, {.batch = 4, .context = kContext, .batches = 2});
  EXPECT_EQ(evaluator.batches(), 2);
  const Evaluation first = evaluator.evaluate(model, runner), second = evaluator.evaluate(model, runner);
  EXPECT_EQ(first.tokens, 2 * 4 * kContext);
  EXPECT_EQ(first.loss, second.loss);
  EXPECT_FALSE(first.accuracy.has_value());
  const Evaluator all(path, {.batch = 4, .context = kContext, .batches = 1000000});
  EXPECT_EQ(all.batches(), Evaluator(path, {.batch = 4, .context = kContext}).batches());
}

TEST(Evaluator, ModelThatDoesNotFitIsASentence) {
  const TemporaryDirectory directory;
  const std::string path = write_tokens(directory / "v.tok", 300).string();
  nn::LocalRunner runner;
  const auto problem = [&](nn::GptOptions o, std::int64_t context) {
    nn::Gpt model(o, std::uint64_t{4});
    try {
      Evaluator(path, {.batch = 4, .context = context}).evaluate(model, runner);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  nn::GptOptions small = options();
  small.vocabulary = 100;
  EXPECT_EQ(problem(small, kContext), "the evaluation file's vocabulary is 257, the model's is 100");
  EXPECT_EQ(problem(options(), 32), "the evaluation's context is 32, the model's is 16");
}

}  // namespace
}  // namespace tessera::train
