#pragma once
// A unit is the part of a model that is gathered, run and released together: the embedding, one block, the head.
// A model is a list of units, run by an injected UnitRunner; it knows nothing of ranks.
#include <cstdint>
#include <vector>

#include "tessera/base/philox.h"
#include "tessera/quant/torch.h"

namespace tessera::nn {

using TensorList = std::vector<torch::Tensor>;

class KvCache;

/// What a forward pass carries besides tensors.
struct UnitContext {
  NoisePosition noise;          ///< seed, step and micro-batch of all random draws
  std::int64_t row_offset = 0;  ///< global index of this rank's first token row within the micro-batch
  bool training = false;        ///< dropout on
  KvCache* cache = nullptr;     ///< generation only: keys and values of earlier positions
};

class Unit : public torch::nn::Module {
 public:
  using torch::nn::Module::Module;
  /// Integer and undefined tensors (ids, targets, masks) may be among the inputs; they get no gradient.
  virtual TensorList forward(const TensorList& inputs, const UnitContext& context) = 0;
  /// False where running forward twice would cost more than the memory it saves.
  virtual bool worth_recomputing() const { return true; }
};

/// Runs a unit: as it is (LocalRunner), or with its weights gathered before and released after.
class UnitRunner {
 public:
  virtual ~UnitRunner() = default;
  virtual TensorList run(Unit& unit, const TensorList& inputs, const UnitContext& context) = 0;
};

}  // namespace tessera::nn
