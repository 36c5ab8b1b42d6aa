#pragma once
// Tensor level of kernels/bgemm: bf16 products whose results do not depend on the number of threads.
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tessera::quant {

/// Whether this CPU multiplies bf16 by itself; where not, dense_matmul does.
bool bf16_products_available();

/// Left operand: bf16 rows padded with zeros.
struct Bf16Rows {
  std::int64_t rows = 0, cols = 0;
  at::Tensor data;  ///< [rows, cols rounded up to 32] bf16
};
/// A matrix as left operands, rounded to bf16: its rows, and the rows of its transpose.
struct Bf16Operands {
  Bf16Rows rows, columns;
};
/// `x` [rows, cols] f32 or bf16 with contiguous columns; what is not wanted stays undefined. Rows may share x's memory.
Bf16Operands bf16_operands(const at::Tensor& x, bool rows, bool columns);

/// Right operand.
struct Bf16Panels {
  std::int64_t n = 0, k = 0;
  at::Tensor data;  ///< int8
};
/// Pack `x` [n, k] f32 or bf16; `transposed`: x is [k, n].
Bf16Panels pack_bf16(const at::Tensor& x, bool transposed);

/// A weight [C, D] as forward (over D) and dX (over C) read it.
struct Bf16Weight {
  Bf16Panels forward_panels, dx_panels;
};
Bf16Weight make_bf16_weight(const at::Tensor& weight);

/// a [m, k] x b [n, k]^T + bias [n] (or undefined) into `out` [m, n] f32 or bf16; with `add` added to it, f32.
void bf16_matmul(const Bf16Rows& a, const Bf16Panels& b, const at::Tensor& bias, const at::Tensor& out,
                 bool add = false);

}  // namespace tessera::quant
