#include "tessera/data/loader.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/math.h"
#include "tessera/data/permutation.h"

namespace tessera::data {
namespace {

void check_shape(std::int64_t batch, std::int64_t context, std::int64_t rank, std::int64_t world) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 31;  // products of two stay in range
  TESSERA_CHECK(batch >= 1 && batch < kLimit, "batch is {}, expected at least 1", batch);
  TESSERA_CHECK(context >= 1 && context < kLimit, "context is {}, expected at least 1", context);
  TESSERA_CHECK(world >= 1 && world < kLimit, "world is {}, expected at least 1", world);
  TESSERA_CHECK(rank >= 0 && rank < world, "rank is {}, expected 0..{} in a world of {}", rank, world - 1, world);
}

std::unique_ptr<TokenFile> open_source(const std::string& path, std::int64_t context, bool document_boundaries) {
  auto file = std::make_unique<TokenFile>(path);
  TESSERA_CHECK(file->tokens() >= context + 1, "{} has {} tokens, a context of {} needs at least {}", path,
                file->tokens(), context, context + 1);
  TESSERA_CHECK(!document_boundaries || file->vocabulary().end_of_text >= 0,
                "{} has no end-of-text token, so document boundaries cannot be kept", path);
  return file;
}

Batch make_batch(std::int64_t batch, std::int64_t context, bool document_boundaries) {
  const auto size = static_cast<std::size_t>(batch * context);
  Batch result{batch, context, std::vector<std::int64_t>(size), std::vector<std::int64_t>(size), {}};
  result.documents.resize(document_boundaries ? size : 0);
  return result;
}

/// Fill one sequence from tokens begin..begin + context of `file`.
void fill_sequence(const TokenFile& file, std::int64_t begin, std::int64_t sequence, Batch& batch) {
  const auto context = static_cast<std::size_t>(batch.context), row = static_cast<std::size_t>(sequence) * context;
  const auto inputs = std::span(batch.inputs).subspan(row, context);
  const auto targets = std::span(batch.targets).subspan(row, context);
  file.copy(begin, inputs);
  file.copy(begin + 1, targets);
  if (batch.documents.empty()) {
    return;
  }
  const auto documents = std::span(batch.documents).subspan(row, context);
  std::int32_t document = 0;
  for (std::size_t i = 0; i < context; ++i) {
    documents[i] = document;
    if (inputs[i] == file.vocabulary().end_of_text) {  // it ends its document; what follows belongs to the next
      targets[i] = -1;
      ++document;
    }
  }
}

/// Windows that fit whole whatever the epoch's offset (see loader.h), at least one.
std::int64_t shuffled_windows(std::int64_t tokens, std::int64_t context) {
  return std::max<std::int64_t>(1, (tokens - context) / context);
}

/// Uniform draw from 0..bound - 1 by the high half of a product; biased by less than bound / 2^64.
std::int64_t draw_below(PhiloxKey key, std::int64_t counter, std::int64_t bound) {
  const auto c = static_cast<std::uint64_t>(counter);
  const PhiloxBlock word = philox(key, {static_cast<std::uint32_t>(c), static_cast<std::uint32_t>(c >> 32), 0, 0});
  const std::uint64_t bits = std::uint64_t{word[0]} << 32 | word[1];
  __extension__ using Uint128 = unsigned __int128;
  return static_cast<std::int64_t>((static_cast<Uint128>(bits) * static_cast<std::uint64_t>(bound)) >> 64);
}

std::vector<double> weights_of(const std::vector<Source>& sources) {
  std::vector<double> weights;
  for (const Source& source : sources) {
    weights.push_back(source.weight);
  }
  return weights;
}

}  // namespace

Loader::Loader(std::vector<Source> sources, LoaderOptions options)
    : options_(options), mixture_(weights_of(sources), options.seed) {
  check_shape(options.batch, options.context, options.rank, options.world);
  for (std::size_t k = 0; k < sources.size(); ++k) {
    files_.push_back(open_source(sources[k].path, options.context, options.document_boundaries));
    const Vocabulary &first = files_.front()->vocabulary(), &mine = files_.back()->vocabulary();
    TESSERA_CHECK(mine == first,
                  "{} has tokenizer {} with vocabulary {} and end-of-text id {}, but {} has {} with {} and {}",
                  sources[k].path, mine.tokenizer, mine.size, mine.end_of_text, sources.front().path, first.tokenizer,
                  first.size, first.end_of_text);
    const std::string name = fmt::format("source {}", k);
    order_keys_.push_back(philox_key(options.seed, name, "order"));
    offset_keys_.push_back(philox_key(options.seed, name, "offset"));
  }
}

std::int64_t Loader::tokens() const {
  std::int64_t sum = 0;
  for (const auto& file : files_) {
    sum += file->tokens();
  }
  return sum;
}

std::int64_t Loader::windows(std::int64_t source) const {
  const std::int64_t tokens = files_.at(static_cast<std::size_t>(source))->tokens(), context = options_.context;
  return options_.shuffle ? shuffled_windows(tokens, context) : (tokens - 1) / context;
}

Loader::Location Loader::locate(std::int64_t sample) const {
  const auto [source, index] = mixture_.pick(sample);
  const auto k = static_cast<std::size_t>(source);
  const std::int64_t per_epoch = windows(source), context = options_.context;
  const std::int64_t epoch = index / per_epoch, place = index % per_epoch;
  if (!options_.shuffle) {
    return {source, epoch, place * context};
  }
  const std::int64_t slack = files_[k]->tokens() - 1 - per_epoch * context;  // tokens that no window would reach
  const std::int64_t offset = draw_below(offset_keys_[k], epoch, std::min(context, slack + 1));
  return {source, epoch, offset + permute(order_keys_[k], epoch, per_epoch, place) * context};
}

Batch Loader::batch(std::int64_t first_sample, std::int64_t count) const {
  TESSERA_CHECK(first_sample >= 0, "the first sample is {}, expected at least 0", first_sample);
  TESSERA_CHECK(count >= 1, "the number of samples is {}, expected at least 1", count);
  Batch result = make_batch(count, options_.context, options_.document_boundaries);
  for (std::int64_t i = 0; i < count; ++i) {
    const Location location = locate(first_sample + i);
    fill_sequence(*files_[static_cast<std::size_t>(location.source)], location.begin, i, result);
  }
  return result;
}

Batch Loader::next() {
  Batch result = batch(position_ + options_.rank * options_.batch, options_.batch);
  position_ += options_.world * options_.batch;
  return result;
}

void Loader::seek(std::int64_t position) {
  TESSERA_CHECK(position >= 0, "the loader's position is {}, expected at least 0", position);
  position_ = position;
}

EvaluationLoader::EvaluationLoader(const std::string& path, EvaluationOptions options) : options_(options) {
  check_shape(options.batch, options.context, options.rank, options.world);
  file_ = open_source(path, options.context, options.document_boundaries);
}

std::int64_t EvaluationLoader::windows() const { return (file_->tokens() - 1) / options_.context; }

std::int64_t EvaluationLoader::batches() const {
  const std::int64_t all = div_ceil(windows(), options_.batch);
  return all > options_.rank ? div_ceil(all - options_.rank, options_.world) : 0;
}

Batch EvaluationLoader::batch(std::int64_t i) const {
  TESSERA_CHECK(i >= 0 && i < batches(), "evaluation batch {} was asked for, rank {} has {}", i, options_.rank,
                batches());
  const std::int64_t first = (i * options_.world + options_.rank) * options_.batch;
  Batch result =
      make_batch(std::min(options_.batch, windows() - first), options_.context, options_.document_boundaries);
  for (std::int64_t j = 0; j < result.batch; ++j) {
    fill_sequence(*file_, (first + j) * options_.context, j, result);
  }
  return result;
}

}  // namespace tessera::data
