#include "tessera/io/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tessera/base/check.h"

namespace tessera::io {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Manifest sample() {
  return {12,
          {{"a.json", {5, 1}}, {"model.safetensors", {123, 0xFEDCBA9876543210}}},
          {{"loss", 1.25}, {"large", 3e300}, {"list", {1, -2, nullptr, true}}, {"text", "\u00e9 \" \n"}}};
}

TEST(Manifest, RoundTrips) {
  const std::string text = manifest_text(sample());
  const Manifest manifest = parse_manifest(text, "m");
  EXPECT_EQ(manifest.step, 12);
  EXPECT_EQ(manifest.files, sample().files);
  EXPECT_EQ(manifest.user, sample().user);
  EXPECT_EQ(manifest_text(manifest), text);
  EXPECT_TRUE(text.ends_with("\n"));
}

TEST(Manifest, EveryTruncationAndFlippedBitIsAnError) {
  const std::string text = manifest_text(sample());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(parse_manifest(text.substr(0, length), "m"), Error) << length;
  }
  for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_THROW(parse_manifest(damaged, "m"), Error) << "bit " << bit;
  }
}

TEST(Manifest, OtherSpellingsOfTheSameContentAreErrors) {
  const std::string text = manifest_text(sample());
  EXPECT_THAT([&] { parse_manifest(text + " ", "m"); }, ThrowsMessage<Error>(HasSubstr("not written as it was")));
  std::string spelled = text;
  spelled.replace(spelled.find("1.25"), 4, "1.250");
  EXPECT_THAT([&] { parse_manifest(spelled, "m"); }, ThrowsMessage<Error>(HasSubstr("not written as it was")));
}

TEST(Manifest, ErrorsAreSentences) {
  const auto message = [](const std::string& text, const char* expected) {
    EXPECT_THAT([&] { parse_manifest(text, "m"); }, ThrowsMessage<Error>(HasSubstr(expected))) << text;
  };
  message("", "m is damaged: it is no JSON from byte 1 on");
  message("[]", "m is no manifest of a checkpoint");
  message("{}", "m is no manifest of a checkpoint");
  message(R"({"format": "tessera-checkpoint", "version": 2})", "m has version 2, this program reads version 1");
  message(R"({"format": "tessera-checkpoint", "version": 1})", "m is damaged: it has no checksum");
  message(std::string(200, '['), "nested deeper than 100 levels");
  message("1e999", "beyond the range");
  std::string text = manifest_text(sample());
  text.replace(text.find("1.25"), 4, "1.75");
  message(text, "m is damaged: it has checksum");
}

TEST(Manifest, FileNamesArePlain) {
  for (const std::string name : {"", ".", "..", "a/b", "/a", "manifest.json"}) {
    EXPECT_THROW(check_checkpoint_filename(name), Error) << name;
    Manifest manifest = sample();
    manifest.files[name] = {1, 1};
    EXPECT_THAT([&] { parse_manifest(manifest_text(manifest), "m"); },
                ThrowsMessage<Error>(HasSubstr("invalid entry")));
  }
  EXPECT_NO_THROW(check_checkpoint_filename("model-00001.safetensors"));
}

TEST(JsonText, WhatJsonCannotHoldIsAnError) {
  for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(
        [&] {
          json_text({{"loss", value}}, "state.json");
        },
        ThrowsMessage<Error>(HasSubstr("state.json would hold a number that is not finite")));
  }
  EXPECT_THAT([&] { json_text("\xFF", "state.json"); }, ThrowsMessage<Error>(HasSubstr("not valid UTF-8")));
  EXPECT_EQ(json_text({{"n", nullptr}}, "state.json"), "{\n  \"n\": null\n}\n");
}

}  // namespace
}  // namespace tessera::io
