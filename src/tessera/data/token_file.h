#pragma once
// Token file: 128 bytes of header, then the tokens, little-endian.
//
//   offset size  field
//        0    8  magic "TSRATOK\n"
//        8    4  version (1)
//       12    4  bytes per token: 1, 2 or 4, the smallest that holds vocabulary - 1
//       16    8  vocabulary, 1..2^31
//       24    8  end-of-text id, -1 when there is none
//       32    8  tokens
//       40    8  documents: end-of-text tokens, plus one if tokens follow the last of them
//       48    8  XXH3-64 of the payload
//       56   32  tokenizer name, zero-padded
//       88   32  zero
//      120    8  XXH3-64 of bytes 0..119
//      128       payload: tokens * bytes per token (64-byte aligned in the file, hence in memory), nothing after it
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "tessera/base/file.h"

namespace tessera::data {

/// What the tokens mean.
struct Vocabulary {
  std::int64_t size = 0;          ///< ids are 0..size - 1
  std::string tokenizer;          ///< 1..32 characters
  std::int64_t end_of_text = -1;  ///< -1: none
  bool operator==(const Vocabulary&) const = default;
};

/// Bytes per token of a vocabulary: 1, 2 or 4.
int token_bytes(std::int64_t vocabulary_size);

enum class Verify {
  kAll,     ///< header, size, payload checksum, ids below the vocabulary, document count
  kHeader,  ///< header and size only: for a file verified before, or for its facts
};

/// A token file, mapped. Immutable, so it may be read from any thread.
class TokenFile {
 public:
  /// Open and verify; throws Error (a sentence with the path) for a missing, empty, truncated or damaged file, a
  /// foreign magic or a newer version.
  explicit TokenFile(const std::filesystem::path& path, Verify verify = Verify::kAll);
  /// The same over bytes in memory, which must outlive the object; `name` stands for the path in messages.
  TokenFile(std::span<const std::byte> bytes, std::string name, Verify verify = Verify::kAll);

  const std::string& name() const { return name_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  int bytes_per_token() const { return bytes_per_token_; }
  std::uint64_t checksum() const { return checksum_; }

  /// Token `i`, 0 <= i < tokens().
  std::int64_t token(std::int64_t i) const;
  /// Copy tokens begin..begin + out.size() - 1; throws Error outside 0..tokens().
  void copy(std::int64_t begin, std::span<std::int64_t> out) const;

 private:
  void parse_header(std::span<const std::byte> bytes);
  void verify_payload() const;

  std::string name_;
  MappedFile file_;
  Vocabulary vocabulary_;
  std::int64_t tokens_ = 0, documents_ = 0;
  int bytes_per_token_ = 0;
  std::uint64_t checksum_ = 0;
  std::span<const std::byte> payload_;
};

/// Writes a token file piece by piece in constant memory; the file has its name only after commit().
class TokenFileWriter {
 public:
  TokenFileWriter(std::filesystem::path path, Vocabulary vocabulary, ExistingFile existing = ExistingFile::kRefuse);
  ~TokenFileWriter();

  /// Append; throws Error for an id outside the vocabulary, before any of `ids` is written.
  void append(std::span<const std::int64_t> ids);
  void append(std::int64_t id) { append({&id, 1}); }
  std::int64_t tokens() const;
  /// As the header will count them.
  std::int64_t documents() const;
  /// Write the header and flush, still aside (see AtomicFile::seal); nothing can be appended after it. Throws Error
  /// when there is no token.
  void seal();
  /// seal(), then give the file its name.
  void commit();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::data
