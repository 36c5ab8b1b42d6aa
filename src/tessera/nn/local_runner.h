#pragma once
// UnitRunner of a single process: every weight is at hand.
#include "tessera/nn/unit.h"

namespace tessera::nn {

class LocalRunner : public UnitRunner {
 public:
  /// With `recompute`, a unit keeps only its inputs and runs its forward again in backward: bit-equal, less memory.
  explicit LocalRunner(bool recompute = false) : recompute_(recompute) {}
  TensorList run(Unit& unit, const TensorList& inputs, const UnitContext& context) override;

 private:
  bool recompute_;
};

}  // namespace tessera::nn
