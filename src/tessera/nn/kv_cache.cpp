#include "tessera/nn/kv_cache.h"

namespace tessera::nn {

std::pair<torch::Tensor, torch::Tensor> KvCache::append(std::int64_t layer, const torch::Tensor& key,
                                                        const torch::Tensor& value) {
  const std::int64_t added = key.size(2), end = length_ + added;
  TORCH_CHECK_VALUE(end <= capacity_, "the key/value cache holds ", capacity_, " positions, ", end, " were needed");
  for (auto [cache, now] : {std::pair{&keys_[layer], &key}, std::pair{&values_[layer], &value}}) {
    if (!cache->defined()) {
      *cache = torch::empty({now->size(0), now->size(1), capacity_, now->size(3)}, now->options().requires_grad(false));
    }
    cache->narrow(2, length_, added).copy_(*now);
  }
  std::pair whole{keys_[layer].narrow(2, 0, end), values_[layer].narrow(2, 0, end)};
  if (layer + 1 == static_cast<std::int64_t>(keys_.size())) length_ = end;
  return whole;
}

}  // namespace tessera::nn
