#include "tessera/nn/linear_products.h"

#include <ATen/Tensor.h>

#include "tessera/base/int4.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/dense_matmul.h"

namespace tessera::nn {
namespace {

using quant::is_rotated;
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

// What rotated products read of a weight, whatever its codes.
struct RotatedWeight {
  const quant::Panels &forward_panels, &dx_panels;
  const at::Tensor& scales;
  at::Tensor trust_mask;  // undefined: nothing was clipped
};

RotatedWeight rotated_weight(const LinearCall& call, Product product) {
  if (product == Product::kInt7) {
    const quant::Int7Weight& weight = call.weight->int7(block_of(call));
    return {weight.forward_panels, weight.dx_panels, weight.scales, {}};
  }
  const quant::Int4Weight& weight = call.weight->int4(block_of(call));
  return {weight.forward_panels, weight.dx_panels, weight.codes.scales, weight.codes.trust_mask};
}

// Limit of the rotated activations' absmax-scaled codes in the forward product; 0: it multiplies others.
std::int32_t absmax_limit(Product forward) {
  return forward == Product::kW4a8 ? kSplitMax : forward == Product::kInt7 ? kInt7Max : 0;
}

// Limit of dY's codes; 0: the product takes floats.
std::int32_t gradient_limit(Product product) {
  return uses_int4(product)          ? kSplitMax
         : product == Product::kInt7 ? kInt7Max
         : product == Product::kInt8 ? kInt8Max
                                     : 0;
}

// Codes of dY: stochastic rounding for the rotated products, nearest for int8.
quant::FoldRequest fold_request(const LinearCall& call, std::int32_t limit) {
  quant::FoldRequest request;
  request.limit = limit;
  request.rounding = limit == kInt8Max ? quant::Rounding::kNearestEven : quant::Rounding::kStochastic;
  request.key = call.noise_key;
  request.noise = call.noise;
  request.row_offset = call.row_offset;
  return request;
}

at::Tensor integer_dx(const LinearCall& call, const SavedActivations& saved, const quant::RowCodes& dy,
                      at::ScalarType dtype) {
  if (call.recipe.dx == Product::kInt8) {
    const quant::Int8Weight& weight = call.weight->int8();
    return quant::int_matmul(dy, weight.dx_panels, weight.dx_scales, {}, dtype);
  }
  const at::Tensor rotated =
      quant::int_matmul(dy, rotated_weight(call, call.recipe.dx).dx_panels, {}, {}, at::kFloat);
  return quant::unrotate(rotated, saved.int4.trust_mask, block_of(call), dtype);
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

void add_integer_dw(const LinearCall& call, const SavedActivations& saved, const quant::RowCodes& dy_columns,
                    at::Tensor& sum) {
  if (call.recipe.dw == Product::kInt8) {
    add_product(dy_columns, quant::pack_panels(saved.int8_columns, /*transposed=*/false), saved.int8_columns.scales,
                sum);
  } else if (call.recipe.dw == Product::kInt7) {
    add_product(dy_columns, quant::pack_panels(saved.int7, /*transposed=*/true), {}, sum);
  } else {
    add_product(dy_columns, quant::pack_panels(saved.int4, /*transposed=*/true), {}, sum);
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
  const bool keep_int7 = saved != nullptr && want_dw && recipe.dw == Product::kInt7;
  // Only an rms4 forward clips activations, and only then does dX need their trust mask.
  const bool keep_mask = saved != nullptr && want_dx && is_rotated(recipe.dx) && recipe.forward == Product::kRms4;
  if (saved != nullptr && want_dw && is_dense(recipe.dw)) saved->dense = x.to(dense_dtype(recipe.dw));
  if (saved != nullptr && want_dw && recipe.dw == Product::kInt8)
    saved->int8_columns =
        quant::fold_quantize(x, {.limit = kInt8Max, .rounding = quant::Rounding::kNearestEven, .columns = true})
            .columns;
  quant::RotatedRows rotated;
  if (is_rotated(recipe.forward) || keep_int4) {
    rotated = quant::rotate_rows(x, {.block = block_of(call),
                                     .int4_packed = keep_int4,
                                     .int4_left = recipe.forward == Product::kRms4,
                                     .trust_mask = keep_mask,
                                     .absmax_limit = absmax_limit(recipe.forward)});
    if (saved != nullptr) saved->int4 = rotated.int4;
  }
  if (keep_int7)
    saved->int7 = recipe.forward == Product::kInt7
                      ? rotated.absmax
                      : quant::rotate_rows(x, {.block = block_of(call), .absmax_limit = kInt7Max}).absmax;
  if (is_dense(recipe.forward)) return dense_forward(call, x, bias);
  if (recipe.forward == Product::kInt8) return int8_forward(call, x, bias);
  const RotatedWeight weight = rotated_weight(call, recipe.forward);
  const quant::RowCodes& left = recipe.forward == Product::kRms4 ? rotated.int4_left : rotated.absmax;
  return quant::int_matmul(left, weight.forward_panels, weight.scales, bias, x.scalar_type());
}

LinearGradients linear_backward(const LinearCall& call, const SavedActivations& saved, const at::Tensor& dy,
                                const LinearWanted& wanted) {
  const quant::Recipe& recipe = call.recipe;
  const bool want_dw = wanted.dw != nullptr;
  LinearGradients out;
  for (const std::int32_t limit : {kSplitMax, kInt7Max, kInt8Max}) {  // one pass over dY for each kind of codes
    quant::FoldRequest request = fold_request(call, limit);
    request.rows = wanted.dx && gradient_limit(recipe.dx) == limit;
    request.columns = want_dw && gradient_limit(recipe.dw) == limit;
    request.sum = wanted.bias && !out.bias.defined() && (request.rows || request.columns || limit == kInt8Max);
    if (!request.rows && !request.columns && !request.sum) continue;
    if (request.rows && is_rotated(recipe.dx)) request.row_fold = rotated_weight(call, recipe.dx).scales;
    if (request.columns && is_rotated(recipe.dw))
      request.column_fold = recipe.dw == Product::kInt7 ? saved.int7.scales : saved.int4.scales;
    const quant::FoldedCodes codes = quant::fold_quantize(dy, request);
    if (request.sum) out.bias = codes.sum;
    if (request.rows) out.dx = integer_dx(call, saved, codes.rows, wanted.dx_dtype);
    if (request.columns) add_integer_dw(call, saved, codes.columns, *wanted.dw);
  }
  if (wanted.dx && is_dense(recipe.dx)) {
    const at::ScalarType dtype = dense_dtype(recipe.dx);
    out.dx = quant::dense_matmul(dy.to(dtype), call.weight->dense(dtype)).to(wanted.dx_dtype);
  }
  if (want_dw && is_dense(recipe.dw)) add_dense_dw(call, saved, dy, *wanted.dw);
  return out;
}

at::Tensor finish_weight_gradient(const LinearCall& call, const at::Tensor& dw) {
  if (!is_rotated(call.recipe.dw)) return dw;
  return quant::unrotate(dw, rotated_weight(call, call.recipe.dw).trust_mask, block_of(call), at::kFloat);
}

}  // namespace tessera::nn
