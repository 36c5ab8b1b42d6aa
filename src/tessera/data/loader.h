#pragma once
// Batches from token files. What sample i is, is a pure function of (seed, files, weights, context, i): no state but
// a counter, so a run resumes anywhere, at any batch size and world.
//
// Mixture: of the first n samples, source k supplies within K (the number of sources) of n * weight_k / sum, for
// every n; the count is computed, not drawn (mixture.h).
// Order: the m-th sample of a source belongs to its epoch m / W and is window P(m mod W), P a permutation keyed by
// seed, source index and epoch (permutation.h), W the windows of an epoch. Windows of context + 1 tokens start
// `context` apart, at an offset drawn anew each epoch, so that later epochs cut the text elsewhere; W is
// chosen so that every offset fits. Without shuffle the order is the file's, offset 0, over and over.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/base/philox.h"
#include "tessera/data/mixture.h"
#include "tessera/data/token_file.h"

namespace tessera::data {

struct Source {
  std::string path;
  double weight = 1;
};

struct LoaderOptions {
  std::int64_t batch = 0;    ///< sequences per call of next(), per rank
  std::int64_t context = 0;  ///< tokens per sequence
  std::uint64_t seed = 0;
  bool shuffle = true;
  bool document_boundaries = false;  ///< targets never cross an end of text; Batch::documents is filled
  std::int64_t rank = 0, world = 1;  ///< ranks take disjoint samples
};

struct Batch {
  std::int64_t batch = 0, context = 0;
  std::vector<std::int64_t> inputs;     ///< [batch, context]
  std::vector<std::int64_t> targets;    ///< [batch, context], -1: ignored
  std::vector<std::int32_t> documents;  ///< [batch, context], document within the window from 0; or empty
};

/// Endless training batches.
class Loader {
 public:
  /// Opens and verifies every file. Throws Error for a file shorter than context + 1 tokens, sources that disagree
  /// on the vocabulary, document_boundaries without an end-of-text id, a weight that is not positive and finite,
  /// batch, context or world below 1, a rank outside the world.
  Loader(std::vector<Source> sources, LoaderOptions options);

  /// The samples first_sample..first_sample + count - 1 of the whole run, whoever would take them. Thread-safe.
  Batch batch(std::int64_t first_sample, std::int64_t count) const;

  /// This rank's part (samples position() + rank * batch and on) of the next world * batch samples; moves on.
  Batch next();
  /// Samples taken by all ranks together: what a checkpoint stores.
  std::int64_t position() const { return position_; }
  void seek(std::int64_t position);

  const Vocabulary& vocabulary() const { return files_.front()->vocabulary(); }
  /// Tokens of all files.
  std::int64_t tokens() const;
  /// Windows in one epoch of source k.
  std::int64_t windows(std::int64_t source) const;

  struct Location {
    std::int64_t source, epoch, begin;  ///< tokens begin..begin + context of that source's file
    bool operator==(const Location&) const = default;
  };
  /// Where sample i lies.
  Location locate(std::int64_t sample) const;

 private:
  std::vector<std::unique_ptr<TokenFile>> files_;
  std::vector<PhiloxKey> order_keys_, offset_keys_;  // by source
  LoaderOptions options_;
  Mixture mixture_;
  std::int64_t position_ = 0;
};

struct EvaluationOptions {
  std::int64_t batch = 0, context = 0;
  bool document_boundaries = false;
  std::int64_t rank = 0, world = 1;
};

/// Every complete window of one file once, in order (windows start `context` apart, so each token but the first is
/// a target once, up to a tail shorter than context). Batch i of a rank is batch i * world + rank of the file; the
/// file's last batch may be smaller.
class EvaluationLoader {
 public:
  /// Errors as Loader.
  EvaluationLoader(const std::string& path, EvaluationOptions options);

  /// Batches of this rank; may be 0 on some ranks of a large world.
  std::int64_t batches() const;
  /// Batch 0 <= i < batches(). Thread-safe.
  Batch batch(std::int64_t i) const;
  /// Windows of the whole file.
  std::int64_t windows() const;
  const Vocabulary& vocabulary() const { return file_->vocabulary(); }

 private:
  std::unique_ptr<TokenFile> file_;
  EvaluationOptions options_;
};

}  // namespace tessera::data
