#include "toml.h"

#include <cctype>
#include <cstdint>
#include <map>

#include "tessera/base/check.h"

namespace tessera::cli {
namespace {

bool is_bare(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// How a character appears in a message.
std::string shown(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte >= 0x7f ? fmt::format("byte 0x{:02x}", byte) : fmt::format("'{}'", c);
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) return put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
  if (code < 0x10000) return put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
  put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  std::vector<TomlEntry> parse() {
    while (!at_end()) {
      skip_blank_lines();
      if (at_end()) break;
      if (peek() == '[') {
        parse_table();
      } else {
        parse_entry();
      }
      end_line();
    }
    return std::move(entries_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void wrong(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}:{}: {}", name_, line_, fmt::format(format, std::forward<Args>(args)...));
  }

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  char take() { return text_[at_++]; }
  bool accept(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_spaces() {
    while (!at_end() && (peek() == ' ' || peek() == '\t')) ++at_;
  }

  void skip_comment() {
    if (!accept('#')) return;
    for (; !at_end() && peek() != '\n'; ++at_) {
      const auto byte = static_cast<unsigned char>(peek());
      const bool line_end = byte == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n';
      if ((byte < 0x20 && byte != '\t' && !line_end) || byte == 0x7f) wrong("{} in a comment", shown(peek()));
    }
  }

  bool accept_line_end() {
    if (at_ + 1 < text_.size() && text_[at_] == '\r' && text_[at_ + 1] == '\n') ++at_;
    if (!accept('\n')) return false;
    ++line_;
    return true;
  }

  void skip_blank_lines() {
    do {
      skip_spaces();
      skip_comment();
    } while (accept_line_end());
  }

  void end_line() {
    skip_spaces();
    skip_comment();
    if (!at_end() && !accept_line_end()) wrong("{} after the value, expected the end of the line", shown(peek()));
  }

  std::string parse_simple_key() {
    if (peek() == '"' || peek() == '\'') return parse_string();
    const std::size_t begin = at_;
    while (!at_end() && is_bare(peek())) ++at_;
    if (at_ == begin) {
      if (at_end()) wrong("the file ends where a key is expected");
      wrong("{} where a key is expected", shown(peek()));
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  std::string parse_key() {
    std::string key = parse_simple_key();
    for (skip_spaces(); accept('.'); skip_spaces()) {
      skip_spaces();
      key += "." + parse_simple_key();
    }
    return key;
  }

  void parse_table() {
    take();
    if (peek() == '[') wrong("arrays of tables ([[...]]) are not supported");
    skip_spaces();
    table_ = parse_key();
    if (!accept(']')) wrong("the table [{}] lacks its closing ']'", table_);
    const auto [earlier, added] = tables_.emplace(table_, line_);
    if (!added) wrong("the table [{}] stands in line {} already", table_, earlier->second);
  }

  void parse_entry() {
    TomlEntry entry;
    entry.line = line_;
    entry.key = (table_.empty() ? "" : table_ + ".") + parse_key();
    if (!accept('=')) wrong("'{}' is not followed by '=' and a value", entry.key);
    const auto [earlier, added] = keys_.emplace(entry.key, line_);
    if (!added) wrong("'{}' stands in line {} already", entry.key, earlier->second);
    skip_spaces();
    if (peek() == '[') {
      parse_array(entry);
    } else {
      parse_value(entry);
    }
    entries_.push_back(std::move(entry));
  }

  void parse_array(TomlEntry& entry) {
    take();
    entry.array = true;
    for (;;) {
      skip_blank_lines();
      if (accept(']')) return;
      if (peek() == '[') wrong("{}: arrays of arrays are not supported", entry.key);
      parse_value(entry);
      skip_blank_lines();
      if (accept(',')) continue;
      if (accept(']')) return;
      if (at_end()) wrong("{}: the array lacks its closing ']'", entry.key);
      wrong("{}: {} in the array, expected ',' or ']'", entry.key, shown(peek()));
    }
  }

  void parse_value(TomlEntry& entry) {
    const auto add = [&](std::string value, TomlType type) {
      entry.values.push_back(std::move(value));
      entry.types.push_back(type);
    };
    if (peek() == '"' || peek() == '\'') return add(parse_string(), TomlType::kText);
    if (peek() == '{') wrong("{}: inline tables are not supported, write a [table] or dotted keys", entry.key);
    const std::size_t begin = at_;
    while (!at_end() && (is_bare(peek()) || peek() == '+' || peek() == '.' || peek() == ':')) ++at_;
    const std::string word(text_.substr(begin, at_ - begin));
    if (word.empty()) wrong("{} has no value", entry.key);
    if (word == "true" || word == "false") return add(word, TomlType::kFlag);
    std::string digits;
    const TomlType type = number_type(word, digits);
    if (type == TomlType::kText)
      wrong("{} is {}, which is no value of TOML; texts stand in quotes: \"{}\"", entry.key, word, word);
    add(std::move(digits), type);
  }

  // kInteger or kReal with the number in plain form in `digits`, kText when `word` is no number.
  static TomlType number_type(const std::string& word, std::string& digits) {
    std::size_t at = word[0] == '+' || word[0] == '-' ? 1 : 0;
    if (word[0] == '-') digits = "-";
    // Digits with single underscores between them.
    const auto run = [&] {
      const std::size_t begin = at;
      for (; at < word.size() && (is_digit(word[at]) || word[at] == '_'); ++at) {
        if (word[at] != '_') {
          digits += word[at];
        } else if (at == begin || word[at - 1] == '_' || at + 1 == word.size() || !is_digit(word[at + 1])) {
          return false;
        }
      }
      return at > begin;
    };
    const std::size_t first = at;
    if (!run() || (word[first] == '0' && at > first + 1)) return TomlType::kText;  // TOML has no leading zeros
    TomlType type = TomlType::kInteger;
    if (at < word.size() && word[at] == '.') {
      digits += word[at++];
      if (!run()) return TomlType::kText;
      type = TomlType::kReal;
    }
    if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
      digits += 'e', ++at;
      if (at < word.size() && (word[at] == '+' || word[at] == '-')) digits += word[at++];
      if (!run()) return TomlType::kText;
      type = TomlType::kReal;
    }
    return at == word.size() ? type : TomlType::kText;
  }

  std::string parse_string() {
    const char quote = take();
    if (text_.substr(at_, 2) == std::string(2, quote)) wrong("multi-line strings are not supported");
    std::string text;
    while (!accept(quote)) {
      if (at_end() || peek() == '\n') wrong("a string lacks its closing {}", quote);
      const char c = take();
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\t') || byte == 0x7f) wrong("{} in a string", shown(c));
      if (c == '\\' && quote == '"') {
        parse_escape(text);
      } else {
        text += c;
      }
    }
    return text;
  }

  void parse_escape(std::string& text) {
    constexpr std::string_view kLetters = "btnfr\"\\", kMeanings = "\b\t\n\f\r\"\\";
    if (at_end()) wrong("the file ends within a string");
    const char c = take();
    if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
      text += kMeanings[known];
      return;
    }
    if (c != 'u' && c != 'U') wrong("{} after a backslash in a string; single quotes take text as it is", shown(c));
    std::uint32_t code = 0;
    for (int i = 0; i < (c == 'u' ? 4 : 8); ++i) {
      const char digit = peek();
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0)
        wrong("\\{} needs {} hexadecimal digits", c, c == 'u' ? 4 : 8);
      const auto lower = static_cast<unsigned>(std::tolower(static_cast<unsigned char>(take())));
      code = code * 16 + (is_digit(digit) ? lower - '0' : lower - 'a' + 10);
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) wrong("\\{}{:x} is no character", c, code);
    append_utf8(text, code);
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::string table_;
  std::map<std::string, int> tables_, keys_;  // and the lines they stand in
  std::vector<TomlEntry> entries_;
};

}  // namespace

std::vector<TomlEntry> parse_toml(std::string_view text, const std::string& name) { return Parser(text, name).parse(); }

}  // namespace tessera::cli
