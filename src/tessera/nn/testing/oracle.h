#pragma once
// Fake quantization in fp64 with plain torch operations: the oracle of the linear layer. It shares nothing with the
// kernels; values next to a rounding edge may fall on the other side in fp32, so tests compare products of the codes
// that were made, and codes separately.
#include <cmath>

#include "tessera/base/int4.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/torch.h"

namespace tessera::nn::testing {

/// Dense block-diagonal normalized Hadamard matrix [width, width].
inline torch::Tensor hadamard(std::int64_t width, std::int64_t block) {
  torch::Tensor h = torch::ones({1, 1}, torch::kDouble);
  while (h.size(0) < block) h = torch::cat({torch::cat({h, h}, 1), torch::cat({h, -h}, 1)}, 0);
  h = h / std::sqrt(static_cast<double>(block));
  const std::vector<torch::Tensor> blocks(static_cast<std::size_t>(width / block), h);
  return torch::block_diag(blocks);
}

/// Bits [rows, cols] as 0/1 doubles; all ones when undefined.
inline torch::Tensor unpack_mask(const torch::Tensor& mask, std::int64_t rows, std::int64_t cols) {
  if (!mask.defined()) return torch::ones({rows, cols}, torch::kDouble);
  torch::Tensor bits = torch::empty({rows, cols}, torch::kDouble);
  auto out = bits.accessor<double, 2>();
  auto in = mask.accessor<std::uint8_t, 2>();
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) out[r][c] = (in[r][c / 8] >> (c % 8)) & 1;
  return bits;
}

/// scale * code of packed INT4 codes, fp64, still rotated.
inline torch::Tensor values(const quant::Int4Codes& codes) {
  torch::Tensor out = torch::empty({codes.rows, codes.cols}, torch::kDouble);
  auto a = out.accessor<double, 2>();
  const auto* packed = codes.packed.const_data_ptr<std::uint8_t>();
  for (std::int64_t r = 0; r < codes.rows; ++r)
    for (std::int64_t c = 0; c < codes.cols; ++c) a[r][c] = int4_get(packed + r * codes.packed.stride(0), c);
  return out * codes.scales.to(torch::kDouble).unsqueeze(1);
}

/// scale * code of one-per-byte codes, fp64.
inline torch::Tensor values(const quant::RowCodes& codes) {
  return codes.codes.narrow(1, 0, codes.cols).to(torch::kDouble) * codes.scales.to(torch::kDouble).unsqueeze(1);
}

}  // namespace tessera::nn::testing
