#include "tessera/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tessera/base/check.h"
#include "tessera/base/testing/temporary_directory.h"

namespace tessera::data {
namespace {

using tessera::testing::TemporaryDirectory;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class LoaderTest : public ::testing::Test {
 protected:
  std::string make(const std::vector<std::int64_t>& ids, const Vocabulary& vocabulary = {1'000'000, "count", 0}) {
    const auto path = directory_ / fmt::format("{}.tok", files_++);
    TokenFileWriter writer(path, vocabulary);
    writer.append(ids);
    writer.commit();
    return path.string();
  }

  /// Tokens first, first + 1, ...: a window's place is its first input.
  std::string make_counting(std::int64_t tokens, std::int64_t first = 1) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(tokens));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = first + static_cast<std::int64_t>(i);
    }
    return make(ids);
  }

  TemporaryDirectory directory_;
  int files_ = 0;
};

void append(Batch& all, const Batch& part) {
  all.batch += part.batch;
  all.context = part.context;
  all.inputs.insert(all.inputs.end(), part.inputs.begin(), part.inputs.end());
  all.targets.insert(all.targets.end(), part.targets.begin(), part.targets.end());
  all.documents.insert(all.documents.end(), part.documents.begin(), part.documents.end());
}

void expect_equal(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.batch, b.batch);
  EXPECT_EQ(a.context, b.context);
  EXPECT_EQ(a.inputs, b.inputs);
  EXPECT_EQ(a.targets, b.targets);
  EXPECT_EQ(a.documents, b.documents);
}

TEST_F(LoaderTest, TargetsAreTheNextTokens) {
  Loader loader({{make_counting(100)}}, {.batch = 3, .context = 7, .seed = 1});
  for (int step = 0; step < 20; ++step) {
    const Batch batch = loader.next();
    ASSERT_EQ(batch.inputs.size(), 21u);
    ASSERT_TRUE(batch.documents.empty());
    for (std::size_t i = 0; i < 21; ++i) {
      EXPECT_EQ(batch.targets[i], batch.inputs[i] + 1);
      EXPECT_TRUE(i % 7 == 0 || batch.inputs[i] == batch.inputs[i - 1] + 1);
    }
  }
}

// In each epoch the windows are those at one offset, each once; offsets and orders change from epoch to epoch.
TEST_F(LoaderTest, EachEpochTilesTheFileAtItsOffset) {
  for (const std::int64_t tokens : {8, 9, 14, 15, 16, 100, 1009}) {
    const std::int64_t context = 7;
    Loader loader({{make_counting(tokens, 0)}}, {.batch = 1, .context = context, .seed = 3});
    const std::int64_t windows = loader.windows(0);
    std::set<std::int64_t> offsets;
    std::set<std::vector<std::int64_t>> orders;
    std::int64_t sample = 0;
    for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
      std::vector<std::int64_t> begins, order;
      for (std::int64_t i = 0; i < windows; ++i, ++sample) {
        const Loader::Location location = loader.locate(sample);
        EXPECT_EQ(location.epoch, epoch);
        EXPECT_EQ(loader.batch(sample, 1).inputs[0], location.begin);
        begins.push_back(location.begin);
      }
      const std::int64_t offset = *std::min_element(begins.begin(), begins.end());
      for (const std::int64_t begin : begins) {
        order.push_back((begin - offset) / context);
      }
      orders.insert(order);
      std::sort(begins.begin(), begins.end());
      for (std::int64_t i = 0; i < windows; ++i) {
        ASSERT_EQ(begins[static_cast<std::size_t>(i)], offset + i * context);
      }
      ASSERT_LE(begins.back() + context, tokens - 1);
      ASSERT_LT(offset, context);
      offsets.insert(offset);
    }
    // Tokens no epoch can reach: none. Every offset that fits occurs among 40 draws of at most 7 (missing one has
    // chance 7 * (6/7)^40 < 2 %; the seed is fixed).
    EXPECT_EQ(static_cast<std::int64_t>(offsets.size()), std::min(context, tokens - windows * context));
    EXPECT_TRUE(windows < 5 || orders.size() > 30) << orders.size();
  }
}

TEST_F(LoaderTest, WithoutShuffleTheOrderIsTheFiles) {
  Loader loader({{make_counting(30, 0)}}, {.batch = 2, .context = 7, .shuffle = false});
  EXPECT_EQ(loader.windows(0), 4);
  for (std::int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(loader.locate(i), (Loader::Location{0, i / 4, i % 4 * 7}));
  }
}

TEST_F(LoaderTest, ResumeNeedsOnlyThePosition) {
  const std::vector<Source> sources = {{make_counting(300), 2}, {make_counting(100, 1000), 1}};
  const LoaderOptions options{.batch = 4, .context = 5, .seed = 9, .document_boundaries = true};
  Loader straight(sources, options), resumed(sources, options);
  for (int step = 0; step < 33; ++step) {
    straight.next();
  }
  EXPECT_EQ(straight.position(), 33 * 4);
  resumed.seek(straight.position());
  for (int step = 0; step < 50; ++step) {
    expect_equal(resumed.next(), straight.next());
  }
  EXPECT_THROW(resumed.seek(-1), Error);
}

TEST_F(LoaderTest, RanksTogetherReadWhatOneRankReads) {
  const std::vector<Source> sources = {{make_counting(300), 2}, {make_counting(100, 1000), 1}};
  Loader whole(sources, {.batch = 12, .context = 5, .seed = 9});
  for (const std::int64_t world : {1, 2, 3, 4}) {
    whole.seek(0);
    std::vector<Loader> ranks;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      ranks.emplace_back(sources,
                         LoaderOptions{.batch = 12 / world, .context = 5, .seed = 9, .rank = rank, .world = world});
    }
    for (int step = 0; step < 10; ++step) {
      Batch together;
      for (Loader& rank : ranks) {
        append(together, rank.next());
        EXPECT_EQ(rank.position(), 12 * (step + 1));
      }
      expect_equal(together, whole.next());
    }
  }
}

TEST_F(LoaderTest, SeedsGiveOtherOrders) {
  const std::vector<Source> sources = {{make_counting(10'000)}};
  const auto inputs = [&](std::uint64_t seed) {
    return Loader(sources, {.batch = 64, .context = 8, .seed = seed}).next().inputs;
  };
  EXPECT_EQ(inputs(1), inputs(1));
  EXPECT_NE(inputs(1), inputs(2));
}

TEST_F(LoaderTest, MixtureKeepsItsProportions) {
  const Loader loader({{make_counting(300), 3}, {make_counting(50, 1000), 1}}, {.batch = 1, .context = 5, .seed = 4});
  const Batch batch = loader.batch(0, 4000);
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < 4000; ++i) {
    const std::int64_t input = batch.inputs[static_cast<std::size_t>(i * 5)];
    first += input < 1000;
    EXPECT_EQ(loader.locate(i).source, input >= 1000);
  }
  EXPECT_NEAR(static_cast<double>(first), 3000, 2);
  EXPECT_EQ(loader.tokens(), 350);
}

TEST_F(LoaderTest, DocumentBoundaries) {
  const Vocabulary vocabulary{10, "t", 9};
  const std::string path = make({1, 2, 9, 3, 9, 9, 4, 5, 6}, vocabulary);
  Loader kept({{path}}, {.batch = 1, .context = 8, .shuffle = false, .document_boundaries = true});
  const Batch batch = kept.next();
  EXPECT_EQ(batch.inputs, (std::vector<std::int64_t>{1, 2, 9, 3, 9, 9, 4, 5}));
  EXPECT_EQ(batch.targets, (std::vector<std::int64_t>{2, 9, -1, 9, -1, -1, 5, 6}));
  EXPECT_EQ(batch.documents, (std::vector<std::int32_t>{0, 0, 0, 1, 1, 2, 3, 3}));
  Loader crossed({{path}}, {.batch = 1, .context = 8, .shuffle = false});
  EXPECT_EQ(crossed.next().targets, (std::vector<std::int64_t>{2, 9, 3, 9, 9, 4, 5, 6}));
}

TEST_F(LoaderTest, BadOptionsAreErrors) {
  const std::string path = make_counting(8);
  const auto message = [](std::vector<Source> sources, const LoaderOptions& options, const char* text) {
    EXPECT_THAT([&] { Loader(sources, options); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  EXPECT_NO_THROW(Loader({{path}}, {.batch = 1, .context = 7}));
  message({{path}}, {.batch = 1, .context = 8}, "has 8 tokens, a context of 8 needs at least 9");
  message({{path}}, {.batch = 0, .context = 7}, "batch is 0");
  message({{path}}, {.batch = 1, .context = 0}, "context is 0");
  message({{path}}, {.batch = INT64_MAX, .context = 7}, "batch is 9223372036854775807");
  message({{path}}, {.batch = 1, .context = 7, .rank = 2, .world = 2}, "rank is 2, expected 0..1 in a world of 2");
  message({{path}}, {.batch = 1, .context = 7, .world = 0}, "world is 0");
  message({{path, 0}}, {.batch = 1, .context = 7}, "the weight of source 0 is 0");
  message({}, {.batch = 1, .context = 7}, "at least one source");
  message({{path}, {make_counting(9)}, {make(std::vector<std::int64_t>(9), {10, "t", 9})}}, {.batch = 1, .context = 7},
          "has tokenizer t with vocabulary 10 and end-of-text id 9, but");
  message({{make(std::vector<std::int64_t>(9), {10, "t", -1})}},
          {.batch = 1, .context = 7, .document_boundaries = true}, "has no end-of-text token");
  message({{(directory_ / "none").string()}}, {.batch = 1, .context = 7}, "No such file");
  const Loader loader({{path}}, {.batch = 1, .context = 7});
  EXPECT_THROW(loader.batch(-1, 1), Error);
  EXPECT_THROW(loader.batch(0, 0), Error);
}

TEST_F(LoaderTest, EvaluationCoversEachWindowOnce) {
  for (const std::int64_t tokens : {8, 14, 15, 16, 100, 113}) {
    const std::string path = make_counting(tokens, 0);
    for (const std::int64_t world : {1, 2, 3, 8}) {
      std::vector<std::int64_t> targets;
      std::vector<EvaluationLoader> ranks;
      std::int64_t most = 0;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        ranks.emplace_back(path, EvaluationOptions{.batch = 4, .context = 7, .rank = rank, .world = world});
        most = std::max(most, ranks.back().batches());
      }
      for (std::int64_t i = 0; i < most; ++i) {
        for (const EvaluationLoader& rank : ranks) {
          if (i < rank.batches()) {
            const Batch batch = rank.batch(i);
            EXPECT_EQ(batch.targets.size(), static_cast<std::size_t>(batch.batch * 7));
            targets.insert(targets.end(), batch.targets.begin(), batch.targets.end());
          }
        }
      }
      ASSERT_EQ(static_cast<std::int64_t>(targets.size()), (tokens - 1) / 7 * 7);
      for (std::size_t i = 0; i < targets.size(); ++i) {
        ASSERT_EQ(targets[i], static_cast<std::int64_t>(i) + 1);
      }
    }
  }
  EXPECT_THROW(EvaluationLoader(make_counting(7), {.batch = 4, .context = 7}), Error);
  const EvaluationLoader loader(make_counting(8), {.batch = 4, .context = 7});
  EXPECT_EQ(loader.windows(), 1);
  EXPECT_EQ(loader.batches(), 1);
  EXPECT_EQ(loader.batch(0).batch, 1);
  EXPECT_THROW(loader.batch(1), Error);
}

}  // namespace
}  // namespace tessera::data
