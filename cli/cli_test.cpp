// The parts of the program that need no process: TOML, configuration from it, tables, options, geometric means.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "bench/interleave.h"
#include "bench/report.h"
#include "inspect/weight_error.h"
#include "options.h"
#include "table.h"
#include "tessera/base/check.h"
#include "tessera/base/nearest_name.h"
#include "toml.h"
#include "train_options.h"

namespace tessera::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The sentence that `run` fails with.
template <typename Run>
std::string message_of(Run&& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

std::string toml_error(const std::string& text) {
  return message_of([&] { parse_toml(text, "run.toml"); });
}

TEST(NearestNameTest, CountsEditsAndSwaps) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("trian", "train"), 1u);
  EXPECT_EQ(edit_distance("same", "same"), 0u);
}

TEST(NearestNameTest, OffersTheClosestOrNothing) {
  const std::vector<std::string> known = {"prepare", "train", "eval"};
  EXPECT_EQ(did_you_mean("trian", known), " (did you mean 'train'?)");
  EXPECT_EQ(did_you_mean("xyzzy", known), "");
}

TEST(TomlTest, ReadsTablesKeysAndValues) {
  const auto entries = parse_toml(
      "# a run\r\n"
      "steps = 1_000  # underscore\n"
      "model.width=128\n"
      "\n"
      "[data]\n"
      "train = [\n  'a\\b.tok', # literal\n  \"c\\u00e9 \\\"x\\\".tok\",\n]\n"
      "shuffle = false\n"
      "[ optimizer ]\n"
      "\"lr\" = +2.5E-3",
      "run.toml");
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[0].key, "steps");
  EXPECT_EQ(entries[0].line, 2);
  EXPECT_THAT(entries[0].values, ElementsAre("1000"));
  EXPECT_THAT(entries[0].types, ElementsAre(TomlType::kInteger));
  EXPECT_EQ(entries[1].key, "model.width");
  EXPECT_EQ(entries[2].key, "data.train");
  EXPECT_TRUE(entries[2].array);
  EXPECT_THAT(entries[2].values, ElementsAre("a\\b.tok", "c\xc3\xa9 \"x\".tok"));
  EXPECT_EQ(entries[3].line, 10);
  EXPECT_THAT(entries[3].types, ElementsAre(TomlType::kFlag));
  EXPECT_EQ(entries[4].key, "optimizer.lr");
  EXPECT_THAT(entries[4].values, ElementsAre("2.5e-3"));
  EXPECT_THAT(entries[4].types, ElementsAre(TomlType::kReal));
}

TEST(TomlTest, AcceptsEmptyTextsAndArrays) {
  EXPECT_TRUE(parse_toml("", "x").empty());
  EXPECT_TRUE(parse_toml("\n  # only a comment", "x").empty());
  EXPECT_TRUE(parse_toml("a = []", "x")[0].values.empty());
  EXPECT_THAT(parse_toml("a = \"\"", "x")[0].values, ElementsAre(""));
}

TEST(TomlTest, NamesLineAndCause) {
  EXPECT_THAT(toml_error("a = 1\nb = wide"), HasSubstr("run.toml:2: b is wide, which is no value of TOML"));
  EXPECT_THAT(toml_error("a = 1\na = 2"), HasSubstr("run.toml:2: 'a' stands in line 1 already"));
  EXPECT_THAT(toml_error("[m]\n[m]"), HasSubstr("run.toml:2: the table [m] stands in line 1"));
  EXPECT_THAT(toml_error("a 1"), HasSubstr("run.toml:1: 'a' is not followed by '='"));
  EXPECT_THAT(toml_error("a = 1 2"), HasSubstr("'2' after the value"));
  EXPECT_THAT(toml_error("a ="), HasSubstr("a has no value"));
  EXPECT_THAT(toml_error("a = \"x"), HasSubstr("a string lacks its closing \""));
  EXPECT_THAT(toml_error("a = [1, 2"), HasSubstr("lacks its closing ']'"));
  EXPECT_THAT(toml_error("[m"), HasSubstr("lacks its closing ']'"));
  EXPECT_THAT(toml_error("= 3"), HasSubstr("'=' where a key is expected"));
  EXPECT_THAT(toml_error("a = \"\\q\""), HasSubstr("'q' after a backslash"));
  EXPECT_THAT(toml_error("a = \"\\ud800\""), HasSubstr("is no character"));
  EXPECT_THAT(toml_error(std::string("a = \"\x01\"")), HasSubstr("byte 0x01 in a string"));
}

TEST(TomlTest, RefusesWhatItDoesNotSupport) {
  EXPECT_THAT(toml_error("[[m]]"), HasSubstr("arrays of tables"));
  EXPECT_THAT(toml_error("a = {b = 1}"), HasSubstr("inline tables"));
  EXPECT_THAT(toml_error("a = \"\"\"x\"\"\""), HasSubstr("multi-line strings"));
  EXPECT_THAT(toml_error("a = 0x10"), HasSubstr("no value of TOML"));
  EXPECT_THAT(toml_error("a = 010"), HasSubstr("no value of TOML"));
  EXPECT_THAT(toml_error("a = 1__0"), HasSubstr("no value of TOML"));
  EXPECT_THAT(toml_error("a = 1."), HasSubstr("no value of TOML"));
  EXPECT_THAT(toml_error("a = nan"), HasSubstr("no value of TOML"));
  EXPECT_THAT(toml_error("a = 1979-05-27"), HasSubstr("no value of TOML"));
}

TEST(TomlTest, SurvivesEveryBitFlip) {
  const std::string text = "steps = 5\n[data]\ntrain = [\"a.tok\"]\nshuffle = true\n";
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string flipped = text;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    message_of([&] { parse_toml(flipped, "x"); });  // an Error or a result, nothing else
  }
  for (std::size_t size = 0; size < text.size(); ++size) message_of([&] { parse_toml(text.substr(0, size), "x"); });
}

TEST(ApplyTomlTest, ResolvedConfigurationReadsBack) {
  train::TrainConfig config;
  config.out = "runs/\"quoted\"\tname";
  config.steps = 17;
  config.model.width = 256;
  config.model.bias = false;
  config.data.train = {"a.tok:2", "b c.tok"};
  config.optimizer.lr = 3;
  train::TrainConfig read;
  apply_toml(read, train::config_toml(config), "config.toml");
  EXPECT_EQ(train::config_json(read), train::config_json(config));
}

TEST(ApplyTomlTest, NamesFileLineKeyAndValue) {
  const auto error = [](const std::string& text) {
    return message_of([&] {
      train::TrainConfig config;
      apply_toml(config, text, "run.toml");
    });
  };
  EXPECT_THAT(error("\n[model]\nwidht = 128"),
              HasSubstr("run.toml:3: unknown key 'model.widht' (did you mean 'model.width'?)"));
  EXPECT_THAT(error("[model]\nwidth = \"wide\""),
              HasSubstr("run.toml:2: model.width is \"wide\", expected a whole number"));
  EXPECT_THAT(error("steps = 1.5"), HasSubstr("steps is 1.5, expected a whole number"));
  EXPECT_THAT(error("steps = \"5\""), HasSubstr("steps is \"5\", expected a whole number"));
  EXPECT_THAT(error("steps = 0"), HasSubstr("steps is '0', expected a whole number of at least 1"));
  EXPECT_THAT(error("recipe = \"w4a9\""), HasSubstr("did you mean 'w4a8'?"));
  EXPECT_THAT(error("recompute = 1"), HasSubstr("recompute is 1, expected true or false"));
  EXPECT_THAT(error("data.train = \"a.tok\""), HasSubstr("data.train is \"a.tok\", expected an array of texts"));
  EXPECT_THAT(error("data.train = [1]"), HasSubstr("data.train is [1], expected an array of texts"));
}

TEST(OptionsTest, ParsesWholeTextsOnly) {
  EXPECT_EQ(parse_integer("--n", "-12", {}), -12);
  EXPECT_THAT(message_of([] { parse_integer("--n", "12x", {.least = 1}); }),
              HasSubstr("--n is '12x', expected a whole number of at least 1"));
  EXPECT_THAT(message_of([] { parse_integer("--n", "", {.least = 1, .most = 4}); }), HasSubstr("in 1..4"));
  EXPECT_THAT(message_of([] { parse_integer("--n", "99999999999999999999", {}); }),
              HasSubstr("expected a whole number"));
  EXPECT_EQ(parse_real("--x", "2e-3", {}), 2e-3);
  EXPECT_THAT(message_of([] { parse_real("--x", "nan", {}); }), HasSubstr("--x is 'nan', expected a number"));
}

TEST(TableTest, AlignsNumbersRightAndCountsCharacters) {
  Table table({"name", "value"});
  EXPECT_TRUE(table.empty());
  table.add({"\xc3\xa9", "7"});
  table.add({"ab", "-1,000"});
  EXPECT_EQ(table.text(), "name   value\n\xc3\xa9          7\nab    -1,000\n");
}

TEST(TableTest, FormatsQuantities) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1'180'000), "1.18 MB");
  EXPECT_EQ(format_bytes(999'999), "1.00 MB");
  EXPECT_EQ(format_seconds(0.00421), "4.21 ms");
}

TEST(BenchTest, GeometricMeanPerPair) {
  const std::vector<BenchRow> rows = {{"gemm", "a", "int4", "bf16", 1, 2, 0},
                                      {"gemm", "a", "int4", "fp32", 1, 10, 0},
                                      {"gemm", "b", "int4", "bf16", 4, 32, 0}};
  const auto means = geometric_means(rows);
  ASSERT_EQ(means.size(), 2u);
  EXPECT_EQ(means[0].case_name, "geomean");
  EXPECT_EQ(means[0].peer, "bf16");
  EXPECT_DOUBLE_EQ(means[0].ours_median_s, 2);
  EXPECT_NEAR(means[0].ratio(), 4, 1e-12);
  EXPECT_NEAR(means[1].ratio(), 10, 1e-12);
}

TEST(BenchTest, ContendersTakeTurns) {
  std::string order;
  const auto medians = interleaved_medians({{"a", [&] { order += 'a'; }}, {"b", [&] { order += 'b'; }}},
                                           {.rounds = 3, .sample_seconds = 0});
  EXPECT_EQ(medians.size(), 2u);
  EXPECT_EQ(order,
            "aabb"
            "ababab");  // first touch and warm-up, then rounds
}

TEST(WeightErrorTest, FormatsByRecipe) {
  // A Gaussian weight: the RMS-scaled +-7 grid loses about 1 % of the energy, INT8 far less, bf16 2^-9 per value.
  constexpr std::int64_t kRows = 64, kCols = 256;
  std::vector<float> weight(kRows * kCols);
  std::mt19937 bits(7);
  std::normal_distribution<float> normal;
  for (float& value : weight) value = normal(bits);
  const auto error = [&](const char* recipe) {
    return weight_error(weight, kRows, kCols, quant::Recipe::named(recipe));
  };
  const WeightError int4 = error("w4a8"), int8 = error("int8"), bf16 = error("bf16"), fp32 = error("fp32");
  EXPECT_EQ(int4.format, "int4, Hadamard 128");
  EXPECT_GT(int4.stats.snr_db(), 18);
  EXPECT_LT(int4.stats.snr_db(), 22);
  EXPECT_GT(int4.stats.clipped_share(), 0);
  EXPECT_LT(int4.stats.clipped_share(), 0.02);
  EXPECT_GT(int8.stats.snr_db(), 35);
  // absmax / 63 / sqrt 12 of a Gaussian row of 256, whose absmax is 2.97: 37.3 dB.
  const WeightError int7 = error("int7");
  EXPECT_EQ(int7.format, "int7, Hadamard 128");
  EXPECT_NEAR(int7.stats.snr_db(), 37.3, 0.5);
  EXPECT_EQ(int7.stats.clipped_share(), 0);
  EXPECT_GT(bf16.stats.snr_db(), 50);
  EXPECT_EQ(fp32.stats.exact(), kRows * kCols);
  EXPECT_THAT(message_of([&] { weight_error(weight, kRows * 16, 16, quant::Recipe::named("rms4")); }), "(no error)");
  EXPECT_THAT(message_of([&] { weight_error(std::span(weight).first(15), 1, 15, quant::Recipe::named("rms4")); }),
              HasSubstr("width is 15"));
}

}  // namespace
}  // namespace tessera::cli
