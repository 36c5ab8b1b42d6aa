// --help, --version and usage errors; and that docs/cli.md knows every option.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "program.h"
#include "tessera/base/file.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::vector<Arguments> kCommands = {{"prepare"},         {"train"},        {"eval"},
                                          {"generate"},        {"inspect"},      {"bench", "gemm"},
                                          {"bench", "linear"}, {"bench", "step"}};

TEST(HelpTest, ListsEveryCommand) {
  const auto result = run_program({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const Arguments& command : kCommands) EXPECT_THAT(result.out, HasSubstr("  " + command[0]));
}

TEST(HelpTest, EveryCommandExplainsItselfAndTheReferenceKnowsItsOptions) {
  const std::string reference = read_file(std::string(TESSERA_DOCS) + "/cli.md");
  for (Arguments command : kCommands) {
    command.push_back("--help");
    const auto result = run_program(command);
    EXPECT_EQ(result.exit_code, 0) << command[0];
    EXPECT_THAT(result.out, HasSubstr("Usage: "));
    const std::regex flag("--[a-z][a-z0-9.-]*");
    for (std::sregex_iterator match(result.out.begin(), result.out.end(), flag), end; match != end; ++match)
      EXPECT_THAT(reference, HasSubstr(match->str())) << "docs/cli.md lacks an option of " << command[0];
  }
}

TEST(HelpTest, HelpAsACommand) {
  EXPECT_EQ(run_program({"help", "train"}).out, run_program({"train", "--help"}).out);
  EXPECT_EQ(run_program({"help"}).out, run_program({"--help"}).out);
}

TEST(HelpTest, VersionNamesIsaAndTorch) {
  const auto result = run_program({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, StartsWith("tessera "));
  EXPECT_THAT(result.out, HasSubstr("ISA "));
  EXPECT_THAT(result.out, HasSubstr("LibTorch "));
}

struct UsageCase {
  Arguments arguments;
  std::string sentence;
};

TEST(UsageTest, EveryMistakeIsASentenceAndCode2) {
  const UsageCase cases[] = {
      {{}, "no command given"},
      {{"trian"}, "unknown command 'trian' (did you mean 'train'?)"},
      {{"help", "evla"}, "unknown command 'evla' (did you mean 'eval'?)"},
      {{"--verison"}, "unknown option '--verison' (did you mean '--version'?)"},
      {{"train", "--model.widht", "64"}, "unknown option '--model.widht' (did you mean '--model.width'?)"},
      {{"eval", "--dta", "x"}, "unknown option '--dta' (did you mean '--data'?)"},
      {{"generate"}, "CHECKPOINT is required"},
      {{"prepare", "a.txt"}, "--out is required"},
      {{"inspect", "a", "b"}, "unexpected argument 'b'"},
      {{"bench"}, "tessera bench --help"},
      {{"bench", "gem"}, "unexpected argument 'gem' (did you mean 'gemm'?)"},
      {{"bench", "gemm", "--shape", "4x4"}, "--shape is '4x4', expected ROWSxDEPTHxCOLUMNS"},
      {{"bench", "linear", "--recipe", "w4a9"}, "recipe is 'w4a9'"},
      {{"bench", "step", "--recipe", "w4a9"}, "recipe is 'w4a9'"},
      {{"bench", "step", "--preset", "gpt3"}, "--preset is 'gpt3', expected gpt2 or small"},
      {{"bench", "step", "--peer", "jit-fp32"}, "--peer is 'jit-fp32', expected none or some of eager-fp32"},
      {{"bench", "step", "--peer", "none", "--peer", "eager-fp32"}, "--peer none excludes every other --peer"},
      {{"bench", "step", "--activations", "fp16"}, "--activations is 'fp16', expected fp32 or bf16"},
      {{"bench", "step", "--width", "100"}, "--width is 100, which --heads 12 does not divide"},
      {{"bench", "step", "--layers", "0"}, "--layers is '0', expected a whole number in 1..1048576"},
      {{"bench", "step", "--python", "/bin/false"}, "/bin/false cannot import torch, which the peers need"},
      {{"bench", "step", "--python", "/nowhere/python"}, "cannot start /nowhere/python: No such file or directory"},
      {{"train", "--steps", "many"}, "steps is 'many', expected a whole number of at least 1"},
      {{"train", "--steps", "-5"}, "steps is '-5', expected a whole number of at least 1"},
      {{"train", "--recompute=maybe"}, "recompute is 'maybe', expected true or false"},
      {{"train", "--optimizer.beta2", "1"}, "optimizer.beta2 is '1', expected a number of at least 0 and below 1"},
      {{"generate", "x", "--top-p", "0"}, "--top-p is '0', expected a number"},
      {{"generate", "x", "--tokens", "9.5"}, "--tokens is '9.5', expected a whole number"},
  };
  for (const UsageCase& test : cases) {
    const auto result = run_program(test.arguments);
    EXPECT_EQ(result.exit_code, 2) << test.sentence;
    EXPECT_EQ(result.out, "") << test.sentence;
    EXPECT_THAT(result.err, StartsWith("tessera: error: "));
    EXPECT_THAT(result.err, HasSubstr(test.sentence));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace tessera::test
