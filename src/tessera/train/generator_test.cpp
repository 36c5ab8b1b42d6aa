#include "tessera/train/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/check.h"
#include "tessera/nn/local_runner.h"

namespace tessera::train {
namespace {

using Ids = std::vector<std::int64_t>;

nn::Gpt make_model(const char* recipe, std::int64_t context = 12) {
  nn::GptOptions o;
  o.vocabulary = 50;
  o.context = context;
  o.layers = 2;
  o.heads = 2;
  o.width = 32;
  o.recipe = quant::Recipe::named(recipe);
  o.head = quant::Recipe::named("fp32");
  nn::Gpt model(o, std::uint64_t{8});
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : model->parameters())
    if (parameter.dim() == 2) parameter.mul_(8);  // logits far apart: rounding decides no greedy choice
  return model;
}

// No cache: every token anew from the text that the rule of generator.h leaves visible.
Ids generate_slowly(nn::Gpt& model, Ids prompt, std::int64_t tokens) {
  const torch::NoGradGuard no_grad;
  nn::LocalRunner runner;
  const std::int64_t context = model->options().context;
  if (static_cast<std::int64_t>(prompt.size()) > context) prompt.erase(prompt.begin(), prompt.end() - context);
  Ids visible = prompt, generated;
  while (static_cast<std::int64_t>(generated.size()) < tokens) {
    if (static_cast<std::int64_t>(visible.size()) > context)
      visible.erase(visible.begin(), visible.end() - context / 2);
    const torch::Tensor ids = torch::tensor(visible, torch::kInt64).unsqueeze(0);
    generated.push_back(model->logits(ids, runner, {})[0][-1].argmax().item<std::int64_t>());
    visible.push_back(generated.back());
  }
  return generated;
}

TEST(Generator, CacheAndSlidingAgreeWithRunningAllAnew) {
  nn::Gpt model = make_model("fp32");
  for (const std::int64_t length : {1, 5, 12, 13, 30}) {
    Ids prompt;
    for (std::int64_t i = 0; i < length; ++i) prompt.push_back((i * 7 + 3) % 50);
    EXPECT_EQ(generate(model, prompt, {.sampling = {.temperature = 0}, .tokens = 40}),
              generate_slowly(model, prompt, 40))
        << length;
  }
}

TEST(Generator, ContextOfOneToken) {
  nn::Gpt model = make_model("fp32", 1);
  EXPECT_EQ(generate(model, Ids{1, 2}, {.sampling = {.temperature = 0}, .tokens = 5}).size(), 5u);
}

TEST(Generator, IsAFunctionOfItsSeed) {
  nn::Gpt model = make_model("w4a8");
  const auto run = [&](std::uint64_t seed) {
    return generate(model, Ids{1, 2, 3}, {.sampling = {.temperature = 5, .seed = seed}, .tokens = 30});
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Generator, TopOneIsGreedy) {
  nn::Gpt model = make_model("w4a8");
  EXPECT_EQ(generate(model, Ids{4}, {.sampling = {.temperature = 2, .top_k = 1, .seed = 9}, .tokens = 20}),
            generate(model, Ids{4}, {.sampling = {.temperature = 0}, .tokens = 20}));
}

TEST(Generator, CallbackSeesEveryTokenAndCanStop) {
  nn::Gpt model = make_model("fp32");
  Ids seen;
  const Ids all = generate(model, Ids{4}, {.tokens = 10}, [&](std::int64_t id) {
    seen.push_back(id);
    return seen.size() < 4;
  });
  EXPECT_EQ(seen.size(), 4u);
  EXPECT_EQ(all, seen);
}

TEST(Generator, StopTokenEndsIt) {
  nn::Gpt model = make_model("fp32");
  const Ids free = generate(model, Ids{4}, {.sampling = {.temperature = 0}, .tokens = 10});
  const Ids stopped = generate(model, Ids{4}, {.sampling = {.temperature = 0}, .tokens = 10, .stop_token = free[2]});
  const auto first = std::find(free.begin(), free.end(), free[2]);
  EXPECT_EQ(stopped, Ids(free.begin(), first + 1));
}

TEST(Generator, NoTokensIsNothing) {
  nn::Gpt model = make_model("fp32");
  EXPECT_TRUE(generate(model, Ids{4}, {.tokens = 0}).empty());
}

TEST(Generator, WrongInputIsASentence) {
  nn::Gpt model = make_model("fp32");
  const auto problem = [&](const Ids& prompt, const GenerationOptions& options) {
    try {
      generate(model, prompt, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(problem({}, {}), "the prompt is empty, expected at least one token");
  EXPECT_EQ(problem({1, 50}, {}), "the prompt has token 50, outside the vocabulary of 50");
  EXPECT_EQ(problem({1, -1}, {}), "the prompt has token -1, outside the vocabulary of 50");
  EXPECT_EQ(problem({1}, {.tokens = -1}), "tokens is -1, expected a whole number of at least 0");
  EXPECT_EQ(problem({1}, {.sampling = {.top_p = 2}}), "top-p is 2, expected a number above 0 and at most 1");
}

}  // namespace
}  // namespace tessera::train
