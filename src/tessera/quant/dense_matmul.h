#pragma once
// Floating products whose bits do not depend on the thread count. A library may split the contraction by threads, so
// each fixed block of output rows is one single-threaded library call (spec rule 1.3.5).
#include <ATen/core/Tensor.h>

namespace tessera::quant {

/// a [m, k] x b [k, n] -> [m, n] in their common dtype (f32 or bf16, fp32 accumulation); strides are free.
at::Tensor dense_matmul(const at::Tensor& a, const at::Tensor& b);

/// The same, added to `out` [m, n] f32.
void dense_matmul_add(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out);

}  // namespace tessera::quant
