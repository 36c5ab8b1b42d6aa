#pragma once
// The lines at the start of a run.
#include <string>

#include "tessera/data/loader.h"
#include "tessera/train/model_io.h"

namespace tessera::train {

/// Bytes a run will hold at least: what parameters take (master weight, gradient, two moments: 16 bytes each), and about
/// what one micro-batch's activations take.
struct MemoryEstimate {
  std::int64_t parameter_bytes = 0, activation_bytes = 0;
};
MemoryEstimate estimate_memory(const ModelFacts& facts);

/// Version, ISA, threads, model, recipe, memory and data, a line each.
std::string describe_run(const ModelFacts& facts, const data::Loader& loader, int threads);

}  // namespace tessera::train
