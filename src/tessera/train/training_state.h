#pragma once
// All that a checkpoint holds and a step changes: model, optimizer, position in the data, counters.
//
// A step: gradients of `accumulate` micro-batches, each loss divided by their number, are summed; their global norm is
// clipped; AdamW updates the fp32 weights with the schedule's learning rate. A step whose loss or norm is not finite
// changes nothing but the counters.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/loader.h"
#include "tessera/nn/local_runner.h"
#include "tessera/nn/models/gpt.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/schedule.h"
#include "tessera/train/metrics.h"
#include "tessera/train/model_io.h"

namespace tessera::train {

class TrainingState {
 public:
  /// Opens and verifies the data, initializes the model.
  explicit TrainingState(const TrainConfig& config);

  /// One step on the next samples; step_s and peak_rss_bytes are the caller's.
  StepMetrics step();

  /// Write model and optimizer; the manifest's facts() are the caller's to commit.
  void save(io::CheckpointWriter& writer);
  /// Throws Error as check_same_run and read_tensors.
  void load(const io::CheckpointReader& reader);

  nn::Gpt& model() { return model_; }
  nn::UnitRunner& runner() { return runner_; }
  const data::Loader& loader() const { return loader_; }
  /// What a checkpoint's manifest says at this point.
  const ModelFacts& facts() const { return facts_; }
  RunProgress& progress() { return facts_.progress; }

 private:
  double accumulate_gradients();
  bool update(float lr, double& grad_norm);
  NamedSpans moments();

  TrainConfig config_;
  data::Loader loader_;
  ModelFacts facts_;
  nn::Gpt model_;
  nn::LocalRunner runner_;
  std::vector<std::pair<std::string, torch::Tensor>> parameters_;
  optim::AdamW optimizer_;
  optim::Schedule schedule_;
};

}  // namespace tessera::train
