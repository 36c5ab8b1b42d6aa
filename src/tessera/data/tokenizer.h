#pragma once
// Bytes as tokens: id = byte value, 256 = end of text. No text is out of vocabulary, none is altered.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::data {

class ByteTokenizer {
 public:
  static constexpr std::string_view kName = "byte";  ///< as token files and checkpoints name it
  static constexpr std::int64_t kVocabulary = 257;
  static constexpr std::int64_t kEndOfText = 256;

  /// One id per byte; never yields kEndOfText.
  std::vector<std::int64_t> encode(std::string_view text) const;
  /// The bytes of `ids`; kEndOfText adds nothing. Throws Error for ids outside the vocabulary.
  std::string decode(std::span<const std::int64_t> ids) const;
};

/// Decodes ids one by one for a terminal: returns bytes as soon as they form whole UTF-8 characters and holds back
/// the beginning of an unfinished one. Bytes that cannot be UTF-8 become U+FFFD, one for each maximal broken part.
class StreamDecoder {
 public:
  /// Text that became complete with `id`; often empty. Throws Error for ids outside the byte vocabulary.
  std::string push(std::int64_t id);
  /// What is still held back at the end of the stream, as U+FFFD.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace tessera::data
