#include "tessera/data/prepare.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "tessera/base/check.h"
#include "tessera/data/token_file.h"
#include "tessera/data/tokenizer.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

/// One entry of the inputs: its files, mapped, in order.
struct DocumentSet {
  std::string name;
  std::vector<MappedFile> files;
};

std::vector<fs::path> text_files_below(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    if (entry.path().extension() == ".txt" && entry.is_regular_file()) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  TESSERA_CHECK(!files.empty(), "{} holds no .txt file", directory.string());
  return files;
}

std::vector<DocumentSet> map_inputs(const std::vector<fs::path>& inputs) {
  TESSERA_CHECK(!inputs.empty(), "no input was named, expected at least one file or directory");
  std::vector<DocumentSet> sets;
  std::set<fs::path> seen;
  for (const fs::path& input : inputs) {
    TESSERA_CHECK(path_exists(input), "input {} does not exist", input.string());
    DocumentSet& set = sets.emplace_back(DocumentSet{input.string(), {}});
    for (const fs::path& file : fs::is_directory(input) ? text_files_below(input) : std::vector{input}) {
      set.files.emplace_back(file);
      TESSERA_CHECK(seen.insert(fs::canonical(file)).second,
                    "{} is among the inputs twice; its validation text would be trained on", file.string());
    }
  }
  return sets;
}

/// Call f(text) for every document that is not empty, in order.
template <typename F>
void for_each_document(const DocumentSet& set, std::string_view separator, F&& f) {
  for (const MappedFile& file : set.files) {
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    std::size_t begin = 0, line = 0;
    while (!separator.empty() && line < text.size()) {
      const std::size_t newline = text.find('\n', line);
      const std::size_t next = newline == std::string_view::npos ? text.size() : newline + 1;
      std::string_view content = text.substr(line, std::min(newline, text.size()) - line);
      if (content.ends_with('\r')) {
        content.remove_suffix(1);
      }
      if (content == separator) {
        if (line > begin) {
          f(text.substr(begin, line - begin));
        }
        begin = next;
      }
      line = next;
    }
    if (begin < text.size()) {
      f(text.substr(begin));
    }
  }
}

/// Text bytes of the set that go to training; the rule is in prepare.h.
std::int64_t training_bytes(const DocumentSet& set, const PrepareOptions& options) {
  std::int64_t total = 0;
  for_each_document(set, options.separator,
                    [&](std::string_view text) { total += static_cast<std::int64_t>(text.size()); });
  TESSERA_CHECK(total > 0, "{} holds no text", set.name);
  const auto tail = static_cast<std::int64_t>(std::llround(options.validation_fraction * static_cast<double>(total)));
  if (tail == 0) {
    return total;
  }
  const std::int64_t wanted = total - tail;
  std::int64_t start = 0, best_distance = tail / 2 + 1, cut = 0;
  for_each_document(set, options.separator, [&](std::string_view text) {
    const auto size = static_cast<std::int64_t>(text.size());
    const std::int64_t distance = std::abs(start - wanted);
    if (start > 0 && distance < best_distance) {
      best_distance = distance;
      cut = start;
    }
    if (wanted > start && wanted < start + size && best_distance > tail / 2) {
      cut = wanted;  // stands unless a later document starts near enough
      for (int i = 0; i < 3 && cut < start + size; ++i) {
        cut += (static_cast<unsigned char>(text[static_cast<std::size_t>(cut - start)]) & 0xC0) == 0x80;
      }
    }
    start += size;
  });
  return cut;
}

class Split {
 public:
  Split(fs::path path, bool overwrite)
      : writer_(path, {ByteTokenizer::kVocabulary, std::string(ByteTokenizer::kName), ByteTokenizer::kEndOfText},
                overwrite ? ExistingFile::kReplace : ExistingFile::kRefuse) {
    report_.path = std::move(path);
  }

  void add_document(std::string_view text) {
    constexpr std::size_t kPiece = std::size_t{1} << 16;
    if (text.empty()) {
      return;
    }
    report_.text_bytes += static_cast<std::int64_t>(text.size());
    for (std::size_t begin = 0; begin < text.size(); begin += kPiece) {
      writer_.append(tokenizer_.encode(text.substr(begin, kPiece)));
    }
    writer_.append(ByteTokenizer::kEndOfText);
  }

  void seal(const char* hint) {
    TESSERA_CHECK(report_.text_bytes > 0, "{} would have no text; {}", report_.path.string(), hint);
    writer_.seal();
  }

  SplitReport commit() {
    writer_.commit();
    report_.tokens = writer_.tokens();
    report_.documents = writer_.documents();
    return report_;
  }

 private:
  ByteTokenizer tokenizer_;
  TokenFileWriter writer_;
  SplitReport report_;
};

void add_set(const DocumentSet& set, const PrepareOptions& options, Split& train, std::optional<Split>& validation) {
  std::int64_t left = training_bytes(set, options);
  for_each_document(set, options.separator, [&](std::string_view text) {
    const auto head = std::min(static_cast<std::size_t>(left), text.size());
    left -= static_cast<std::int64_t>(head);
    train.add_document(text.substr(0, head));
    if (validation) {
      validation->add_document(text.substr(head));
    }
  });
}

PrepareReport prepare_checked(const PrepareOptions& options) {
  const fs::path train_path = options.output / "train.tok", validation_path = options.output / "validation.tok";
  for (const fs::path& path : {train_path, validation_path}) {
    TESSERA_CHECK(options.overwrite || !path_exists(path), "{} exists already; name another output or overwrite it",
                  path.string());
  }
  const std::vector<DocumentSet> sets = map_inputs(options.inputs);
  fs::create_directories(options.output);
  Split train(train_path, options.overwrite);
  std::optional<Split> validation;
  if (options.validation_fraction > 0) {
    validation.emplace(validation_path, options.overwrite);
  }
  PrepareReport report;
  for (const DocumentSet& set : sets) {
    report.files += static_cast<std::int64_t>(set.files.size());
    add_set(set, options, train, validation);
  }
  train.seal("lower the validation fraction or add text");
  if (validation) {
    validation->seal("raise the validation fraction or add text");
    report.validation = validation->commit();
  } else {
    fs::remove(validation_path);  // overwriting: an old one belongs to other text
  }
  report.train = train.commit();
  return report;
}

}  // namespace

PrepareReport prepare(const PrepareOptions& options) {
  TESSERA_CHECK(options.validation_fraction >= 0 && options.validation_fraction < 1,
                "the validation fraction is {}, expected at least 0 and less than 1", options.validation_fraction);
  TESSERA_CHECK(options.separator.find('\n') == std::string::npos, "the document separator contains a line break");
  TESSERA_CHECK(!options.output.empty(), "no output directory was named");
  try {
    return prepare_checked(options);
  } catch (const fs::filesystem_error& error) {
    fail("cannot use {}: {}", error.path1().string(), error.code().message());
  }
}

}  // namespace tessera::data
