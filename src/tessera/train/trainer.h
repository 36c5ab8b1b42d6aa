#pragma once
// Trains a GPT as a TrainConfig says and leaves a run folder:
//   config.toml            the configuration as resolved; `--config RUN/config.toml --resume auto` goes on
//   metrics.jsonl          one object per step and one per evaluation (metrics.h)
//   checkpoints/step-N/    model_io.h
//   samples/step-N.txt     text of the model
//   tensorboard/           event files, by option
//   summary.json           at the end
// A run is a pure function of its configuration and data: any thread count, recompute on or off, stopped and resumed or
// not, the same bits.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "tessera/train/config.h"
#include "tessera/train/metrics.h"

namespace tessera::train {

enum class Outcome {
  kFinished,     ///< all steps done
  kInterrupted,  ///< by SIGINT, SIGTERM or request_stop(); saved
  kDiverged,     ///< three steps in a row were not finite; the last checkpoint is from before them
};

struct TrainResult {
  Outcome outcome = Outcome::kFinished;
  int signal = 0;       ///< that interrupted, or 0
  std::string message;  ///< what happened and how to go on: a sentence for the user
  Summary summary;
  /// 0 finished, 128 + signal interrupted (130 for Ctrl-C, 143 for SIGTERM; 0 by request_stop()), 1 diverged.
  int exit_code() const;
};

class Trainer {
 public:
  /// Validates, opens and verifies the data, builds the model, loads the checkpoint to resume from. Writes nothing.
  /// Throws Error for anything that is wrong with configuration, data or checkpoint, and for a run folder that already
  /// holds a run when resume is "none".
  explicit Trainer(TrainConfig config);
  ~Trainer();

  /// Lines to print at the start: version, ISA, threads, model, recipe, memory, data.
  std::string describe() const;

  /// Called after each step, for tests and programs around the trainer.
  void set_observer(std::function<void(const StepMetrics&)> observer);
  /// Finish the step under way, save and return from run(). From any thread or the observer.
  void request_stop();

  /// Train. Throws Error when the disk is full or a file cannot be written; checkpoints written before stay.
  TrainResult run();

 private:
  struct Outputs;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::train
