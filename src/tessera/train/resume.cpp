#include "tessera/train/resume.h"

#include "tessera/base/check.h"

namespace tessera::train {
namespace {

// Keys whose change makes another run.
constexpr const char* kFixedKeys[] = {"seed",          "model.layers",      "model.heads", "model.width",
                                      "model.context", "model.tie-weights", "model.bias",  "data.document-boundaries",
                                      "data.shuffle"};

std::optional<io::CheckpointReader> newest(const io::CheckpointStore& store) {
  std::optional<io::CheckpointReader> reader = store.open_latest_valid();
  TESSERA_CHECK(reader || store.steps().empty(), "no checkpoint in {} is valid; remove the folder to start anew",
                store.root().string());
  return reader;
}

std::optional<io::CheckpointReader> named(const TrainConfig& config, const RunFolder& folder,
                                          const io::CheckpointStore& store) {
  io::CheckpointReader reader = io::open_checkpoint(config.resume);
  std::error_code ignored;
  const bool own = std::filesystem::equivalent(reader.path().parent_path(), store.root(), ignored);
  const std::optional<std::int64_t> latest = store.latest();
  TESSERA_CHECK(
      !own || latest == reader.step(),
      "resume is {}, but {} is newer; move the newer ones away, or branch off into another run folder (--out)",
      config.resume, store.path(latest.value_or(0)).string());
  TESSERA_CHECK(own || !folder.holds_run(), "{} already holds a run, to which {} does not belong; choose another --out",
                folder.root().string(), config.resume);
  return reader;
}

}  // namespace

std::optional<io::CheckpointReader> find_checkpoint(const TrainConfig& config, const RunFolder& folder) {
  if (config.resume == "none") {
    TESSERA_CHECK(!folder.holds_run(),
                  "{} already holds a run; go on with it by --resume auto, or choose another --out",
                  folder.root().string());
    return {};
  }
  const io::CheckpointStore store(folder.checkpoints());
  return config.resume == "auto" ? newest(store) : named(config, folder, store);
}

void check_same_run(const ModelFacts& now, const ModelFacts& saved, const std::filesystem::path& checkpoint) {
  const std::string from = checkpoint.string();
  for (const char* name : kFixedKeys) {
    const Key& key = find_key(name, "resume");
    const std::string ours = value_text(now.config, key), theirs = value_text(saved.config, key);
    TESSERA_CHECK(ours == theirs, "cannot resume from {}: {} is {}, the checkpoint has {}", from, name, ours, theirs);
  }
  TESSERA_CHECK(now.vocabulary == saved.vocabulary,
                "cannot resume from {}: the data's tokenizer is '{}' with {} tokens, the checkpoint's '{}' with {}",
                from, now.vocabulary.tokenizer, now.vocabulary.size, saved.vocabulary.tokenizer, saved.vocabulary.size);
  TESSERA_CHECK(now.data.size() == saved.data.size(),
                "cannot resume from {}: data.train has {} files, the checkpoint {}", from, now.data.size(),
                saved.data.size());
  for (std::size_t i = 0; i < now.data.size(); ++i) {
    const DataFacts &ours = now.data[i], &theirs = saved.data[i];
    TESSERA_CHECK(ours.checksum == theirs.checksum,
                  "cannot resume from {}: data.train has {} with checksum {}, the checkpoint {} with {}", from,
                  ours.path, ours.checksum, theirs.path, theirs.checksum);
    TESSERA_CHECK(ours.weight == theirs.weight,
                  "cannot resume from {}: data.train gives {} the weight {}, the checkpoint {}", from, ours.path,
                  ours.weight, theirs.weight);
  }
  TESSERA_CHECK(saved.progress.step <= now.config.steps,
                "cannot resume from {}: steps is {}, the checkpoint has done {}", from, now.config.steps,
                saved.progress.step);
}

}  // namespace tessera::train
