#include "tessera/data/tokenizer.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera::data {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

void check_id(std::int64_t id) {
  TESSERA_CHECK(id >= 0 && id < ByteTokenizer::kVocabulary, "token id is {}, expected 0..{}", id,
                ByteTokenizer::kVocabulary - 1);
}

/// Bytes of the character that begins with `lead`; 0 when no character does.
std::size_t utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

/// Whether `next` may follow `lead` as second byte: rules out overlong forms, surrogates and beyond U+10FFFF.
bool second_byte_fits(unsigned char lead, unsigned char next) {
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return next >= low && next <= high;
}

}  // namespace

std::vector<std::int64_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    ids[i] = static_cast<unsigned char>(text[i]);
  }
  return ids;
}

std::string ByteTokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (const std::int64_t id : ids) {
    check_id(id);
    if (id != kEndOfText) {
      text.push_back(static_cast<char>(id));
    }
  }
  return text;
}

std::string StreamDecoder::push(std::int64_t id) {
  check_id(id);
  if (id == ByteTokenizer::kEndOfText) {
    return finish();
  }
  const auto byte = static_cast<unsigned char>(id);
  std::string text;
  if (!held_.empty()) {
    const auto lead = static_cast<unsigned char>(held_.front());
    if (held_.size() == 1 ? second_byte_fits(lead, byte) : (byte & 0xC0) == 0x80) {
      held_.push_back(static_cast<char>(byte));
      return held_.size() == utf8_length(lead) ? std::exchange(held_, {}) : std::string();
    }
    text = finish();
  }
  switch (utf8_length(byte)) {
    case 0:
      return text.append(kReplacement);
    case 1:
      text.push_back(static_cast<char>(byte));
      return text;
    default:
      held_.assign(1, static_cast<char>(byte));
      return text;
  }
}

std::string StreamDecoder::finish() {
  return std::exchange(held_, {}).empty() ? std::string() : std::string(kReplacement);
}

}  // namespace tessera::data
