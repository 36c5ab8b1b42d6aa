// Every input that a fuzzer kept, through the same targets.
#include <gtest/gtest.h>

#include <filesystem>

#include "targets.h"
#include "tessera/base/file.h"

namespace tessera::fuzz {
namespace {

void replay(const char* format, void (*target)(std::span<const std::byte>)) {
  int inputs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(TESSERA_FUZZ_CORPUS) / format)) {
    SCOPED_TRACE(entry.path().string());
    const MappedFile file(entry.path());
    EXPECT_NO_THROW(target(file.bytes()));
    ++inputs;
  }
  EXPECT_GE(inputs, 10) << "the corpus of " << format << " is missing";
}

TEST(FuzzCorpus, Safetensors) { replay("safetensors", fuzz_safetensors); }
TEST(FuzzCorpus, TokenFile) { replay("token_file", fuzz_token_file); }
TEST(FuzzCorpus, Manifest) { replay("manifest", fuzz_manifest); }

}  // namespace
}  // namespace tessera::fuzz
