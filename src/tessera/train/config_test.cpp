#include "tessera/train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tessera/base/check.h"

namespace tessera::train {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

void set(TrainConfig& config, const std::string& name, const std::string& value) {
  set_value(config, find_key(name, "test"), std::vector<std::string>{value}, "test");
}

std::string set_error(const std::string& name, const std::string& value) {
  return error_of([&] {
    TrainConfig config;
    set(config, name, value);
  });
}

TrainConfig runnable() {
  TrainConfig config;
  config.out = "run";
  config.data.train = {"a.tok"};
  return config;
}

TEST(ConfigKeys, NamesAreUniqueAndFieldsDistinct) {
  std::set<std::string> names;
  std::set<const void*> fields;
  TrainConfig config;
  for (const Key& key : config_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    if (!key.alias.empty()) {
      EXPECT_TRUE(names.insert(key.alias).second) << key.alias;
    }
    const void* address = std::visit([](auto* value) -> const void* { return value; }, key.field(config));
    EXPECT_TRUE(fields.insert(address).second) << key.name;
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_EQ(key.placeholder.empty(), key.type() == KeyType::kFlag) << key.name;
  }
}

TEST(ConfigKeys, DefaultsAreInRange) { EXPECT_NO_THROW(validate(runnable())); }

TEST(ConfigKeys, UnknownNameIsAnErrorWithTheNearest) {
  EXPECT_EQ(error_of([] { find_key("model.widht", "run.toml:3"); }),
            "run.toml:3: unknown key 'model.widht' (did you mean 'model.width'?)");
  EXPECT_EQ(error_of([] { find_key("optimizer.weight_decay", "run.toml:3"); }),
            "run.toml:3: unknown key 'optimizer.weight_decay' (did you mean 'optimizer.weight-decay'?)");
  EXPECT_EQ(error_of([] { find_key("zzzzzzzzzzzzzzzzzzzz", "flag"); }), "flag: unknown key 'zzzzzzzzzzzzzzzzzzzz'");
  EXPECT_EQ(find_key("keep", "flag").name, "checkpoint.keep");
}

TEST(ConfigValues, AreStored) {
  TrainConfig config;
  set(config, "model.width", "256");
  set(config, "optimizer.lr", "3e-4");
  set(config, "recipe", "rms4");
  set(config, "model.bias", "false");
  set(config, "keep", "7");
  EXPECT_EQ(config.model.width, 256);
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.recipe, "rms4");
  EXPECT_FALSE(config.model.bias);
  EXPECT_EQ(config.checkpoint.keep, 7);
  const std::vector<std::string> files{"a.tok", "b.tok:0.5"};
  set_value(config, find_key("data.train", "test"), files, "test");
  EXPECT_EQ(config.data.train, files);
}

TEST(ConfigValues, WrongOnesAreSentences) {
  EXPECT_EQ(set_error("model.width", "wide"), "test: model.width is 'wide', expected a whole number in 1..1048576");
  EXPECT_EQ(set_error("model.width", "0"), "test: model.width is '0', expected a whole number in 1..1048576");
  EXPECT_EQ(set_error("model.width", "64.0"), "test: model.width is '64.0', expected a whole number in 1..1048576");
  EXPECT_EQ(set_error("steps", "99999999999999999999"),
            "test: steps is '99999999999999999999', expected a whole number of at least 1");
  EXPECT_EQ(set_error("optimizer.lr", "nan"), "test: optimizer.lr is 'nan', expected a number of at least 0");
  EXPECT_EQ(set_error("optimizer.eps", "0"), "test: optimizer.eps is '0', expected a number above 0");
  EXPECT_EQ(set_error("model.dropout", "1"), "test: model.dropout is '1', expected a number of at least 0 and below 1");
  EXPECT_EQ(set_error("tensorboard", "yes"), "test: tensorboard is 'yes', expected true or false");
  EXPECT_EQ(set_error("recipe", "w4a9"),
            "test: recipe is 'w4a9', expected one of fp32, bf16, int8, int7, rms4, w4a8 (did you mean 'w4a8'?)");
  EXPECT_EQ(set_error("recipe-dw", "rms4"), "test: recipe-dw is 'rms4', expected one of recipe, fp32, bf16, int8");
}

TEST(ConfigValues, WrongOneLeavesTheConfigurationAlone) {
  TrainConfig config;
  EXPECT_THROW(set(config, "model.width", "12x"), Error);
  EXPECT_EQ(config.model.width, TrainConfig().model.width);
}

TEST(ConfigValidate, NamesWhatCannotRun) {
  const auto problem = [](const std::function<void(TrainConfig&)>& change) {
    TrainConfig config = runnable();
    change(config);
    return error_of([&] { validate(config); });
  };
  EXPECT_THAT(problem([](TrainConfig& c) { c.out = ""; }), StartsWith("out is empty"));
  EXPECT_THAT(problem([](TrainConfig& c) { c.data.train = {}; }), StartsWith("data.train is empty"));
  EXPECT_EQ(problem([](TrainConfig& c) { c.model.heads = 3; }),
            "model.width is 128, which model.heads 3 does not divide");
  EXPECT_EQ(problem([](TrainConfig& c) { c.keep_first = 3, c.keep_last = 2; }),
            "keep-first 3 and keep-last 2 exceed model.layers 4");
  EXPECT_EQ(problem([](TrainConfig& c) { c.schedule.warmup_steps = 2000; }),
            "schedule.warmup-steps is 2000, more than steps 1000");
  EXPECT_EQ(problem([](TrainConfig& c) { c.schedule.min_lr = 1; }), "schedule.min-lr is 1, above optimizer.lr 0.001");
  EXPECT_EQ(problem([](TrainConfig& c) { c.recipe_warmup = c.recipe_final = "int7", c.recipe_final_fraction = 0.8; }),
            "recipe-warmup-fraction 0.3 and recipe-final-fraction 0.8 are more than the whole run");
  EXPECT_THAT(problem([](TrainConfig& c) { c.hadamard_block = 48; }), HasSubstr("Hadamard block is 48"));
  EXPECT_EQ(problem([](TrainConfig& c) { c.data.train = {"a.tok:-1"}; }),
            "data.train has 'a.tok:-1', expected a positive number after the colon");
  EXPECT_THAT(problem([](TrainConfig& c) { c.batch = 0; }), StartsWith("batch is '0'"));
}

TEST(ConfigSources, WeightFollowsTheLastColon) {
  TrainConfig config;
  config.data.train = {"a.tok", "b.tok:2.5", "dir:1/c.tok"};
  const std::vector<data::Source> sources = training_sources(config);
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0].path, "a.tok");
  EXPECT_EQ(sources[0].weight, 1);
  EXPECT_EQ(sources[1].path, "b.tok");
  EXPECT_EQ(sources[1].weight, 2.5);
  EXPECT_EQ(sources[2].path, "dir:1/c.tok");
}

TEST(ConfigRecipe, ProductsAreOverridden) {
  TrainConfig config = runnable();
  config.recipe = "rms4";
  config.recipe_dw = "bf16";
  EXPECT_EQ(describe_recipe(config), "rms4, dw bf16");
  EXPECT_EQ(head_recipe(config).describe(), "bf16");
}

TEST(ConfigRecipe, PhasesFollowEachOther) {
  TrainConfig config = runnable();  // 1000 steps of w4a8
  EXPECT_EQ(describe_recipe(config), "w4a8");
  config.recipe_warmup = "int7";
  EXPECT_EQ(describe_recipe(config), "int7 for 300 steps, then w4a8");
  EXPECT_EQ(recipe_at(config, 0).describe(), "int7");
  EXPECT_EQ(recipe_at(config, 299).describe(), "int7");
  EXPECT_EQ(recipe_at(config, 300).describe(), "w4a8");
  EXPECT_EQ(recipe_at(config, 5000).describe(), "w4a8");
  config.recipe_warmup = "none";
  EXPECT_EQ(describe_recipe(config), "w4a8");
  config.recipe_final = "bf16";
  config.recipe_dw = "fp32";
  EXPECT_EQ(describe_recipe(config), "w4a8, dw fp32 for 900 steps, then bf16, dw fp32");
  config.recipe_dw = "recipe";
  config.recipe_warmup = "int8";
  config.recipe_warmup_fraction = 0.9;
  EXPECT_EQ(describe_recipe(config), "int8 for 900 steps, then bf16");  // nothing is left for w4a8
  config.recipe_warmup_fraction = 0;
  config.steps = 1;
  EXPECT_EQ(describe_recipe(config), "w4a8");
}

// Every key away from its default, so that a forgotten one shows.
TrainConfig changed() {
  TrainConfig config = runnable();
  for (const Key& key : config_keys()) {
    const Field field = key.field(config);
    if (auto* const* flag = std::get_if<bool*>(&field)) **flag = !**flag;
    if (auto* const* integer = std::get_if<std::int64_t*>(&field)) **integer += key.name == "hadamard-block" ? 16 : 1;
    if (auto* const* real = std::get_if<double*>(&field)) **real = 0.123456789012345678 + **real / 3;
    if (auto* const* text = std::get_if<std::string*>(&field))
      **text = key.choices.empty() ? "it's \"quoted\"\\\n\tand \x01" : key.choices.back();
    if (auto* const* texts = std::get_if<std::vector<std::string>*>(&field)) **texts = {"x y.tok:2", "z.tok"};
  }
  config.resume = "none";
  return config;
}

TEST(ConfigJson, RoundTrips) {
  const TrainConfig config = changed();
  const TrainConfig read = config_from_json(config_json(config), "manifest.json");
  EXPECT_EQ(config_json(read), config_json(config));
  for (const Key& key : config_keys()) EXPECT_EQ(value_text(read, key), value_text(config, key)) << key.name;
}

TEST(ConfigJson, WrongOnesAreSentences) {
  const auto problem = [](const char* text) {
    return error_of([&] { config_from_json(nlohmann::json::parse(text), "m.json"); });
  };
  EXPECT_EQ(problem(R"({"stepz": 3})"), "m.json: unknown key 'stepz' (did you mean 'steps'?)");
  EXPECT_EQ(problem(R"({"steps": "3"})"), "m.json: steps is \"3\", expected a whole number of at least 1");
  EXPECT_EQ(problem(R"({"steps": 3.5})"), "m.json: steps is 3.5, expected a whole number of at least 1");
  EXPECT_THAT(problem(R"({"data.train": "a.tok"})"), HasSubstr("expected one or more texts"));
  EXPECT_THAT(problem("[]"), HasSubstr("no JSON object"));
}

TEST(ConfigToml, WritesTypesTablesAndEscapes) {
  const std::string toml = config_toml(changed());
  EXPECT_THAT(toml, HasSubstr("\nsteps = 1001\n"));
  EXPECT_THAT(toml, HasSubstr("\nrecipe = \"w4a8\"\n"));
  EXPECT_THAT(toml, HasSubstr("\n[model]\nlayers = 5\n"));
  EXPECT_THAT(toml, HasSubstr("\ntrain = [\"x y.tok:2\", \"z.tok\"]\n"));
  EXPECT_THAT(toml, HasSubstr("\nprompt = \"it's \\\"quoted\\\"\\\\\\n\\tand \\u0001\"\n"));
  EXPECT_THAT(toml, ::testing::Not(HasSubstr("resume")));
  EXPECT_LT(toml.rfind("tensorboard = true"), toml.find("[model]"));  // keys without a table come first
  EXPECT_THAT(config_toml(runnable()), HasSubstr("\nclip = 1.0\n"));  // a real number stays one
}

}  // namespace
}  // namespace tessera::train
