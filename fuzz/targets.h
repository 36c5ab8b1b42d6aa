#pragma once
// What the fuzzers run, apart from libFuzzer, so that the corpus is replayed as an ordinary test. A target returns
// for every input that the reader takes or refuses with tessera::Error; anything else is a finding.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"
#include "tessera/data/token_file.h"
#include "tessera/io/manifest.h"
#include "tessera/io/safetensors.h"

namespace tessera::fuzz {

/// What an accepted safetensors file promises: views inside the file, end to end, of the announced sizes.
inline void fuzz_safetensors(std::span<const std::byte> bytes) {
  try {
    const io::SafetensorsFile file(bytes, "input");
    std::size_t total = 0;
    for (const io::TensorView& view : file.tensors()) {
      TESSERA_DCHECK(&file.tensor(view.name) == &view);
      TESSERA_DCHECK(static_cast<std::size_t>(io::byte_count(view.dtype, view.shape)) == view.data.size());
      TESSERA_DCHECK(view.data.empty() || (view.data.data() > bytes.data() &&
                                           view.data.data() + view.data.size() <= bytes.data() + bytes.size()));
      static_cast<void>(xxh3(view.data));  // reads every byte, under AddressSanitizer
      total += view.data.size();
    }
    TESSERA_DCHECK(total < bytes.size());
  } catch (const Error&) {
  }
}

inline void read_token_file(std::span<const std::byte> bytes) {
  try {
    const data::TokenFile file(bytes, "input");
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(file.tokens()));
    file.copy(0, tokens);
    std::int64_t documents = tokens.back() != file.vocabulary().end_of_text;
    for (const std::int64_t token : tokens) {
      TESSERA_DCHECK(token >= 0 && token < file.vocabulary().size);
      documents += token == file.vocabulary().end_of_text;
    }
    TESSERA_DCHECK(documents == file.documents());
  } catch (const Error&) {
  }
}

/// The input as it is, and with its checksums made right, without which hardly any would get past them.
inline void fuzz_token_file(std::span<const std::byte> bytes) {
  constexpr std::size_t kHeader = 128, kPayloadChecksum = 48, kHeaderChecksum = 120;
  read_token_file(bytes);
  if (bytes.size() < kHeader) {
    return;
  }
  std::vector<std::byte> repaired(bytes.begin(), bytes.end());
  const std::uint64_t payload = xxh3(bytes.subspan(kHeader));
  std::memcpy(repaired.data() + kPayloadChecksum, &payload, sizeof(payload));
  const std::uint64_t header = xxh3(std::span(repaired).first(kHeaderChecksum));
  std::memcpy(repaired.data() + kHeaderChecksum, &header, sizeof(header));
  read_token_file(repaired);
}

/// Parsed as it is; and any JSON as a manifest's user part comes back as it was.
inline void fuzz_manifest(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    const io::Manifest manifest = io::parse_manifest(text, "input");
    TESSERA_DCHECK(io::manifest_text(manifest) == text);
  } catch (const Error&) {
  }
  try {
    const io::Manifest manifest{7, {{"file", {bytes.size(), xxh3(bytes)}}}, io::parse_json(text, "input")};
    const io::Manifest again = io::parse_manifest(io::manifest_text(manifest), "input");
    TESSERA_DCHECK(again.step == 7 && again.files == manifest.files && again.user == manifest.user);
  } catch (const Error&) {
  }
}

}  // namespace tessera::fuzz
