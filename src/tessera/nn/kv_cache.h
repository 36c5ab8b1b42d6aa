#pragma once
// Keys and values of the positions a model has already seen, one pair per block.
#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/quant/torch.h"

namespace tessera::nn {

class KvCache {
 public:
  /// Room for `capacity` positions of `layers` blocks.
  KvCache(std::int64_t layers, std::int64_t capacity) : capacity_(capacity), keys_(layers), values_(layers) {}

  /// Append [batch, heads, new, head_width] for `layer`; return all positions so far (views, valid until the next append).
  std::pair<torch::Tensor, torch::Tensor> append(std::int64_t layer, const torch::Tensor& key,
                                                 const torch::Tensor& value);

  /// Positions complete in every layer; grows when the last block appended.
  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }

 private:
  std::int64_t capacity_, length_ = 0;
  std::vector<torch::Tensor> keys_, values_;
};

}  // namespace tessera::nn
