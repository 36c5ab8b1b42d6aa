#include "tessera/quant/bf16_matmul.h"

#include <ATen/ops/empty.h>

#include "tessera/base/math.h"
#include "tessera/base/part_timers.h"
#include "tessera/kernels/bgemm/bgemm.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::quant {
namespace {

std::uint16_t* halves(const at::Tensor& x) { return static_cast<std::uint16_t*>(x.mutable_data_ptr()); }

Bf16Rows empty_rows(std::int64_t rows, std::int64_t cols) {
  return {rows, cols, at::empty({rows, round_up(cols, kernels::kBgemmDepth)}, at::TensorOptions(at::kBFloat16))};
}

bool is_left_operand(const at::Tensor& x) {
  return x.scalar_type() == at::kBFloat16 && x.is_contiguous() && x.size(1) % kernels::kBgemmDepth == 0 &&
         reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % 64 == 0;
}

}  // namespace

bool bf16_products_available() { return kernels::bgemm_available(); }

Bf16Operands bf16_operands(const at::Tensor& x, bool rows, bool columns) {
  use_torch_threads();
  Bf16Operands out;
  kernels::Bf16RowsParams params;
  params.rows = x.size(0);
  params.cols = x.size(1);
  params.x = float_rows(x);
  if (rows && is_left_operand(x)) {
    out.rows = {params.rows, params.cols, x};
  } else if (rows) {
    out.rows = empty_rows(params.rows, params.cols);
    params.as_rows = halves(out.rows.data);
    params.row_stride = out.rows.data.size(1);
  }
  if (columns) {
    out.columns = empty_rows(params.cols, params.rows);
    params.as_columns = halves(out.columns.data);
    params.column_stride = out.columns.data.size(1);
  }
  if (params.as_rows != nullptr || params.as_columns != nullptr) kernels::bf16_rows(params);
  return out;
}

Bf16Panels pack_bf16(const at::Tensor& x, bool transposed) {
  use_torch_threads();
  const at::Tensor source = x.to(at::kBFloat16).contiguous();
  Bf16Panels panels{source.size(transposed ? 1 : 0), source.size(transposed ? 0 : 1), {}};
  panels.data = at::empty({kernels::bgemm_packed_b_bytes(panels.n, panels.k)}, at::TensorOptions(at::kChar));
  kernels::bgemm_pack_b(halves(source), source.size(1), transposed, panels.n, panels.k,
                        panels.data.mutable_data_ptr<std::int8_t>());
  return panels;
}

Bf16Weight make_bf16_weight(const at::Tensor& weight) {
  const ScopedPart part(Part::kWeightCodes);
  const at::Tensor rounded = weight.to(at::kBFloat16);
  return {pack_bf16(rounded, /*transposed=*/false), pack_bf16(rounded, /*transposed=*/true)};
}

void bf16_matmul(const Bf16Rows& a, const Bf16Panels& b, const at::Tensor& bias, const at::Tensor& out, bool add) {
  const ScopedPart part(Part::kDenseMatmul);
  use_torch_threads();
  TORCH_CHECK_VALUE(a.cols == b.k, "left operand contracts over ", a.cols, ", right operand over ", b.k);
  TORCH_CHECK_VALUE(
      out.dim() == 2 && out.size(0) == a.rows && out.size(1) == b.n && (!add || out.scalar_type() == at::kFloat),
      "output is ", out.scalar_type(), " ", out.sizes(), ", expected [", a.rows, ", ", b.n, "]");
  kernels::BgemmParams params;
  params.m = a.rows;
  params.n = b.n;
  params.k = b.k;
  params.a = halves(a.data);
  params.a_stride = a.data.size(1);
  params.panels = b.data.const_data_ptr<std::int8_t>();
  params.out = mutable_float_rows(out);
  params.bias = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  params.accumulate = add;
  kernels::bgemm(params);
}

}  // namespace tessera::quant
