#pragma once
// Text files -> train.tok and validation.tok with the byte tokenizer.
//
// Documents: each file is at least one; a line that is exactly the separator ends one (the line itself, with its
// line break, is dropped; empty documents are dropped). Every document is followed by the end-of-text token.
//
// Split: each entry of `inputs` (a file, or all .txt files below a directory in order of their paths) is one
// document set, and the tail of each set is validation, so that every set is seen on both sides. The cut is at
// text byte n - round(fraction * n) of the set's n, moved to the nearest start of a document if one lies within
// half the tail's length; otherwise it is inside a document (moved on to a UTF-8 character's start), which then
// counts as one document on each side. Nothing is random.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tessera::data {

struct PrepareOptions {
  std::vector<std::filesystem::path> inputs = {};
  std::filesystem::path output = {};        ///< directory, created when missing
  double validation_fraction = 0.1;         ///< 0 <= f < 1; 0 writes no validation.tok
  std::string separator = "<|endoftext|>";  ///< empty: a file is one document
  bool overwrite = false;                   ///< else an existing output is an error; removes a stale validation.tok
};

struct SplitReport {
  std::filesystem::path path;  ///< empty when the split was not written
  std::int64_t text_bytes = 0, tokens = 0, documents = 0;
};

struct PrepareReport {
  std::int64_t files = 0;
  SplitReport train, validation;
};

/// Throws Error for a missing or unreadable input, a directory without .txt files, no text, an empty split, an
/// existing output, a full disk. Outputs appear complete or not at all.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace tessera::data
