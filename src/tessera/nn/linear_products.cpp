#include "tessera/nn/linear_products.h"

#include <ATen/Tensor.h>

#include "tessera/base/int4.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/dense_matmul.h"

namespace tessera::nn {
namespace {

using quant::Product;
using quant::uses_int4;

at::ScalarType dense_dtype(Product product) { return product == Product::kBf16 ? at::kBFloat16 : at::kFloat; }
bool is_dense(Product product) { return product == Product::kFp32 || product == Product::kBf16; }

std::int32_t block_of(const LinearCall& call) {
  return quant::hadamard_block_for(call.in_features, call.recipe.hadamard_block);
}

// Y of a floating product, and X as its dW wants it.
at::Tensor dense_forward(const LinearCall& call, const at::Tensor& x, const at::Tensor& bias) {
  const at::ScalarType dtype = dense_dtype(call.recipe.forward);
  at::Tensor y = quant::dense_matmul(x.to(dtype), call.weight->dense(dtype).t());
  if (bias.defined()) y.add_(bias);
  return y.to(x.scalar_type());
}

at::Tensor int8_forward(const LinearCall& call, const at::Tensor& x, const at::Tensor& bias) {
  const quant::Int8Weight& weight = call.weight->int8();
  const quant::RowCodes rows = quant::rotate_rows(x, {.block = 1, .absmax_limit = kInt8Max}).absmax;
  return quant::int_matmul(rows, weight.forward_panels, weight.forward_scales, bias, x.scalar_type());
}

// Codes of dY: bit-split with stochastic rounding for the INT4 products, nearest INT8 for int8.
quant::FoldRequest fold_request(const LinearCall& call, bool int4) {
  quant::FoldRequest request;
  request.limit = int4 ? kSplitMax : kInt8Max;
  request.rounding = int4 ? quant::Rounding::kStochastic : quant::Rounding::kNearestEven;
  request.key = call.noise_key;
  request.noise = call.noise;
  request.row_offset = call.row_offset;
  return request;
}

at::Tensor int4_dx(const LinearCall& call, const SavedActivations& saved, const quant::RowCodes& dy,
                   at::ScalarType dtype) {
  const quant::Int4Weight& weight = call.weight->int4(block_of(call));
  const at::Tensor rotated = quant::int_matmul(dy, weight.dx_panels, {}, {}, at::kFloat);
  return quant::unrotate(rotated, saved.int4.trust_mask, weight.codes.block, dtype);
}

void add_product(const quant::RowCodes& a, const quant::Panels& b, const at::Tensor& col_scale, at::Tensor& sum) {
  if (!sum.defined()) {
    sum = quant::int_matmul(a, b, col_scale, {}, at::kFloat);
  } else if (!col_scale.defined()) {
    quant::int_matmul_add(a, b, sum);
  } else {
    sum.add_(quant::int_matmul(a, b, col_scale, {}, at::kFloat));
  }
}

void add_dense_dw(const LinearCall& call, const SavedActivations& saved, const at::Tensor& dy, at::Tensor& sum) {
  const at::ScalarType dtype = dense_dtype(call.recipe.dw);
  const at::Tensor dy_t = dy.to(dtype).t();
  if (!sum.defined()) {
    sum = quant::dense_matmul(dy_t, saved.dense).to(at::kFloat);
  } else {
    quant::dense_matmul_add(dy_t, saved.dense, sum);
  }
}

}  // namespace

at::Tensor linear_forward(const LinearCall& call, const at::Tensor& x, const at::Tensor& bias, bool want_dx,
                          bool want_dw, SavedActivations* saved) {
  const quant::Recipe& recipe = call.recipe;
  const bool keep_int4 = saved != nullptr && want_dw && uses_int4(recipe.dw);
  // Only an rms4 forward clips activations, and only then does dX need their trust mask.
  const bool keep_mask = saved != nullptr && want_dx && uses_int4(recipe.dx) && recipe.forward == Product::kRms4;
  if (saved != nullptr && want_dw && is_dense(recipe.dw)) saved->dense = x.to(dense_dtype(recipe.dw));
  if (saved != nullptr && want_dw && recipe.dw == Product::kInt8)
    saved->int8_columns =
        quant::fold_quantize(x, {.limit = kInt8Max, .rounding = quant::Rounding::kNearestEven, .columns = true})
            .columns;
  quant::RotatedRows rotated;
  if (uses_int4(recipe.forward) || keep_int4) {
    rotated = quant::rotate_rows(x, {.block = block_of(call),
                                     .int4_packed = keep_int4,
                                     .int4_left = recipe.forward == Product::kRms4,
                                     .trust_mask = keep_mask,
                                     .absmax_limit = recipe.forward == Product::kW4a8 ? kSplitMax : 0});
    if (saved != nullptr) saved->int4 = rotated.int4;
  }
  if (is_dense(recipe.forward)) return dense_forward(call, x, bias);
  if (recipe.forward == Product::kInt8) return int8_forward(call, x, bias);
  const quant::Int4Weight& weight = call.weight->int4(block_of(call));
  const quant::RowCodes& left = recipe.forward == Product::kRms4 ? rotated.int4_left : rotated.absmax;
  return quant::int_matmul(left, weight.forward_panels, weight.codes.scales, bias, x.scalar_type());
}

LinearGradients linear_backward(const LinearCall& call, const SavedActivations& saved, const at::Tensor& dy,
                                const LinearWanted& wanted) {
  const quant::Recipe& recipe = call.recipe;
  const bool want_dw = wanted.dw != nullptr;
  LinearGradients out;
  for (const bool int4 : {true, false}) {  // one pass over dY for each kind of codes
    quant::FoldRequest request = fold_request(call, int4);
    const auto is_kind = [&](Product product) { return int4 ? uses_int4(product) : product == Product::kInt8; };
    request.rows = wanted.dx && is_kind(recipe.dx);
    request.columns = want_dw && is_kind(recipe.dw);
    request.sum = wanted.bias && !out.bias.defined() && (request.rows || request.columns || !int4);
    if (!request.rows && !request.columns && !request.sum) continue;
    if (int4 && request.rows) request.row_fold = call.weight->int4(block_of(call)).codes.scales;
    if (int4 && request.columns) request.column_fold = saved.int4.scales;
    const quant::FoldedCodes codes = quant::fold_quantize(dy, request);
    if (request.sum) out.bias = codes.sum;
    if (request.rows) {
      out.dx = int4 ? int4_dx(call, saved, codes.rows, wanted.dx_dtype)
                    : quant::int_matmul(codes.rows, call.weight->int8().dx_panels, call.weight->int8().dx_scales, {},
                                        wanted.dx_dtype);
    }
    if (request.columns) {
      if (int4) {
        add_product(codes.columns, quant::pack_panels(saved.int4, /*transposed=*/true), {}, *wanted.dw);
      } else {
        add_product(codes.columns, quant::pack_panels(saved.int8_columns, /*transposed=*/false),
                    saved.int8_columns.scales, *wanted.dw);
      }
    }
  }
  if (wanted.dx && is_dense(recipe.dx)) {
    const at::ScalarType dtype = dense_dtype(recipe.dx);
    out.dx = quant::dense_matmul(dy.to(dtype), call.weight->dense(dtype)).to(wanted.dx_dtype);
  }
  if (want_dw && is_dense(recipe.dw)) add_dense_dw(call, saved, dy, *wanted.dw);
  return out;
}

at::Tensor finish_weight_gradient(const LinearCall& call, const at::Tensor& dw) {
  if (!uses_int4(call.recipe.dw)) return dw;
  const quant::Int4Codes& codes = call.weight->int4(block_of(call)).codes;
  return quant::unrotate(dw, codes.trust_mask, codes.block, at::kFloat);
}

}  // namespace tessera::nn
