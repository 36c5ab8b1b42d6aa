#pragma once
// Token embedding whose gradient sums in a fixed order.
#include "tessera/quant/torch.h"

namespace tessera::nn {

/// Rows `ids` [...] int64 of `table` [vocabulary, width] f32 -> [..., width] f32. Throws for an id out of range.
torch::Tensor embedding(const torch::Tensor& ids, const torch::Tensor& table);

}  // namespace tessera::nn
