#include "tessera/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/checksum.h"

namespace tessera::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read and written in memory order");

constexpr std::string_view kMagic = "TSRATOK\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 31;

struct Header {
  char magic[8];
  std::uint32_t version, bytes_per_token;
  std::int64_t vocabulary, end_of_text, tokens, documents;
  std::uint64_t payload_checksum;
  char tokenizer[32];
  char zero[32];
  std::uint64_t header_checksum;
};
static_assert(sizeof(Header) == 128 && offsetof(Header, tokenizer) == 56 && offsetof(Header, header_checksum) == 120);

std::uint64_t checksum_of(const Header& header) {
  return xxh3(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_checksum)));
}

void check_vocabulary(const Vocabulary& vocabulary, const std::string& where) {
  TESSERA_CHECK(vocabulary.size >= 1 && vocabulary.size <= kMaxVocabulary, "{}: the vocabulary is {}, expected 1..{}",
                where, vocabulary.size, kMaxVocabulary);
  TESSERA_CHECK(vocabulary.end_of_text >= -1 && vocabulary.end_of_text < vocabulary.size,
                "{}: the end-of-text id is {}, expected -1..{}", where, vocabulary.end_of_text, vocabulary.size - 1);
  TESSERA_CHECK(!vocabulary.tokenizer.empty() && vocabulary.tokenizer.size() <= sizeof(Header::tokenizer),
                "{}: the tokenizer's name has {} characters, expected 1..{}", where, vocabulary.tokenizer.size(),
                sizeof(Header::tokenizer));
  TESSERA_CHECK(vocabulary.tokenizer.find('\0') == std::string::npos, "{}: the tokenizer's name contains a zero byte",
                where);
}

/// Token i of a payload; bytes in memory may lie anywhere, so memcpy (which compiles to a load).
template <typename T>
T token_at(std::span<const std::byte> payload, std::int64_t i) {
  T token;
  std::memcpy(&token, payload.data() + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return token;
}

template <typename F>
decltype(auto) with_token_type(int bytes_per_token, F&& f) {
  switch (bytes_per_token) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    default:
      return f(std::uint32_t{});
  }
}

}  // namespace

int token_bytes(std::int64_t vocabulary_size) {
  return vocabulary_size <= 1 << 8 ? 1 : vocabulary_size <= 1 << 16 ? 2 : 4;
}

TokenFile::TokenFile(const std::filesystem::path& path, Verify verify) : name_(path.string()), file_(path) {
  parse_header(file_.bytes());
  if (verify == Verify::kAll) {
    verify_payload();
  }
}

TokenFile::TokenFile(std::span<const std::byte> bytes, std::string name, Verify verify) : name_(std::move(name)) {
  parse_header(bytes);
  if (verify == Verify::kAll) {
    verify_payload();
  }
}

void TokenFile::parse_header(std::span<const std::byte> bytes) {
  TESSERA_CHECK(!bytes.empty(), "{} is empty, expected a token file", name_);
  TESSERA_CHECK(bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0,
                "{} is not a token file: it does not begin with the token-file magic", name_);
  TESSERA_CHECK(bytes.size() >= sizeof(Header), "{} is truncated: it has {} bytes, its header alone takes {}", name_,
                bytes.size(), sizeof(Header));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  // Before the checksum, which another version may place elsewhere.
  TESSERA_CHECK(header.version == kVersion, "{} has token-file version {}, this program reads version {}", name_,
                header.version, kVersion);
  TESSERA_CHECK(header.header_checksum == checksum_of(header),
                "{} is damaged: its header has checksum {}, but {} is stored", name_,
                checksum_text(checksum_of(header)), checksum_text(header.header_checksum));

  const std::string_view name_field(header.tokenizer, sizeof(header.tokenizer));
  const std::string_view name = name_field.substr(0, name_field.find('\0'));
  vocabulary_ = {header.vocabulary, std::string(name), header.end_of_text};
  check_vocabulary(vocabulary_, name_);
  const auto is_zero = [](char c) { return c == '\0'; };
  TESSERA_CHECK(std::all_of(name_field.begin() + static_cast<std::ptrdiff_t>(name.size()), name_field.end(), is_zero) &&
                    std::all_of(std::begin(header.zero), std::end(header.zero), is_zero),
                "{} is damaged: its header's padding is not zero", name_);
  bytes_per_token_ = token_bytes(vocabulary_.size);
  TESSERA_CHECK(header.bytes_per_token == static_cast<std::uint32_t>(bytes_per_token_),
                "{} stores {} bytes per token, but a vocabulary of {} takes {}", name_, header.bytes_per_token,
                vocabulary_.size, bytes_per_token_);
  payload_ = bytes.subspan(sizeof(Header));
  // Compared by division: tokens * bytes_per_token could overflow.
  const auto payload_bytes = static_cast<std::uint64_t>(payload_.size());
  const auto width = static_cast<std::uint64_t>(bytes_per_token_);
  TESSERA_CHECK(header.tokens >= 1, "{} has {} tokens, expected at least 1", name_, header.tokens);
  TESSERA_CHECK(payload_bytes % width == 0 && payload_bytes / width == static_cast<std::uint64_t>(header.tokens),
                "{} is {}: its header announces {} tokens of {} bytes, {} bytes follow", name_,
                payload_bytes / width < static_cast<std::uint64_t>(header.tokens) ? "truncated" : "too long",
                header.tokens, width, payload_bytes);
  TESSERA_CHECK(header.documents >= 1 && header.documents <= header.tokens,
                "{} has {} documents, expected 1..{} (its tokens)", name_, header.documents, header.tokens);
  tokens_ = header.tokens;
  documents_ = header.documents;
  checksum_ = header.payload_checksum;
}

void TokenFile::verify_payload() const {
  const std::uint64_t found = xxh3(payload_);
  TESSERA_CHECK(found == checksum_, "{} is damaged: its tokens have checksum {}, but {} is stored", name_,
                checksum_text(found), checksum_text(checksum_));
  std::int64_t ends = 0;
  with_token_type(bytes_per_token_, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < tokens_; ++i) {
      const std::int64_t id = token_at<T>(payload_, i);
      TESSERA_CHECK(id < vocabulary_.size, "{} is invalid: token {} is {}, the vocabulary has {}", name_, i, id,
                    vocabulary_.size);
      ends += id == vocabulary_.end_of_text;
    }
  });
  const std::int64_t documents = ends + (token(tokens_ - 1) != vocabulary_.end_of_text);
  TESSERA_CHECK(documents == documents_, "{} is invalid: its header announces {} documents, its tokens form {}", name_,
                documents_, documents);
}

std::int64_t TokenFile::token(std::int64_t i) const {
  TESSERA_DCHECK(i >= 0 && i < tokens_);
  return with_token_type(bytes_per_token_, [&]<typename T>(T) -> std::int64_t { return token_at<T>(payload_, i); });
}

void TokenFile::copy(std::int64_t begin, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  TESSERA_CHECK(begin >= 0 && begin <= tokens_ && count <= tokens_ - begin,
                "{} has {} tokens, {} from {} on were asked for", name_, tokens_, count, begin);
  with_token_type(bytes_per_token_, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < count; ++i) {
      out[static_cast<std::size_t>(i)] = token_at<T>(payload_, begin + i);
    }
  });
}

struct TokenFileWriter::State {
  static constexpr std::size_t kBufferBytes = std::size_t{1} << 18;

  AtomicFile file;
  Vocabulary vocabulary;
  Checksum checksum = {};
  std::vector<std::byte> buffer = {};
  std::int64_t tokens = 0, ends = 0, last = -1;
  bool sealed = false;

  void flush() {
    checksum.update(buffer);
    file.write(buffer);
    buffer.clear();
  }
};

TokenFileWriter::TokenFileWriter(std::filesystem::path path, Vocabulary vocabulary, ExistingFile existing) {
  check_vocabulary(vocabulary, path.string());
  state_.reset(new State{.file = AtomicFile(std::move(path), existing), .vocabulary = std::move(vocabulary)});
  state_->file.write(std::string(sizeof(Header), '\0'));  // the place of the header
}

TokenFileWriter::~TokenFileWriter() = default;

void TokenFileWriter::append(std::span<const std::int64_t> ids) {
  State& state = *state_;
  TESSERA_DCHECK(!state.sealed);
  for (const std::int64_t id : ids) {
    TESSERA_CHECK(id >= 0 && id < state.vocabulary.size, "token id is {}, expected 0..{}", id,
                  state.vocabulary.size - 1);
  }
  with_token_type(token_bytes(state.vocabulary.size), [&]<typename T>(T) {
    for (const std::int64_t id : ids) {
      const auto token = std::bit_cast<std::array<std::byte, sizeof(T)>>(static_cast<T>(id));
      state.buffer.insert(state.buffer.end(), token.begin(), token.end());
      state.ends += id == state.vocabulary.end_of_text;
      if (state.buffer.size() >= State::kBufferBytes) {
        state.flush();
      }
    }
  });
  state.tokens += static_cast<std::int64_t>(ids.size());
  state.last = ids.empty() ? state.last : ids.back();
}

std::int64_t TokenFileWriter::tokens() const { return state_->tokens; }

std::int64_t TokenFileWriter::documents() const {
  return state_->ends + (state_->tokens > 0 && state_->last != state_->vocabulary.end_of_text);
}

void TokenFileWriter::seal() {
  State& state = *state_;
  if (std::exchange(state.sealed, true)) {
    return;
  }
  TESSERA_CHECK(state.tokens > 0, "a token file needs at least one token, got none");
  state.flush();
  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.version = kVersion;
  header.bytes_per_token = static_cast<std::uint32_t>(token_bytes(state.vocabulary.size));
  header.vocabulary = state.vocabulary.size;
  header.end_of_text = state.vocabulary.end_of_text;
  header.tokens = state.tokens;
  header.documents = documents();
  header.payload_checksum = state.checksum.value();
  std::memcpy(header.tokenizer, state.vocabulary.tokenizer.data(), state.vocabulary.tokenizer.size());
  header.header_checksum = checksum_of(header);
  state.file.write_at(0, std::as_bytes(std::span(&header, 1)));
  state.file.seal();
}

void TokenFileWriter::commit() {
  seal();
  state_->file.commit();
}

}  // namespace tessera::data
