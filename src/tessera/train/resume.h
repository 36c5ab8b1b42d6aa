#pragma once
// Going on from a checkpoint: which one, and whether it belongs to the same run.
#include <optional>

#include "tessera/train/model_io.h"
#include "tessera/train/run_folder.h"

namespace tessera::train {

/// The checkpoint that config.resume asks for, verified; nothing: start from the beginning.
///   none    throws Error when the folder holds a run
///   auto    the newest valid one; throws Error when there are some and all are damaged
///   a path  that checkpoint: the newest of this run folder, or one of another run when this folder holds none
std::optional<io::CheckpointReader> find_checkpoint(const TrainConfig& config, const RunFolder& folder);

/// Throws Error, naming the key and both values, when going on from `saved` would not be the same run: another seed,
/// architecture, tokenizer, data or data order, or more steps done than asked for. Other keys may change.
void check_same_run(const ModelFacts& now, const ModelFacts& saved, const std::filesystem::path& checkpoint);

}  // namespace tessera::train
