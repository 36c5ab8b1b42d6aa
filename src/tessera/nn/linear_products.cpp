#include "tessera/nn/linear_products.h"

#include <ATen/Tensor.h>
#include <ATen/ops/empty.h>

#include "tessera/base/int4.h"
#include "tessera/quant/bf16_matmul.h"
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

// Products of bf16 that our own kernels multiply.
bool is_own_bf16(Product product) { return product == Product::kBf16 && quant::bf16_products_available(); }

void dense_forward(const LinearCall& call, const at::Tensor& x, const at::Tensor& bias, const at::Tensor& y) {
  if (is_own_bf16(call.recipe.forward)) {
    const quant::Bf16Rows rows = quant::bf16_operands(x, /*rows=*/true, /*columns=*/false).rows;
    return quant::bf16_matmul(rows, call.weight->bf16().forward_panels, bias, y);
  }
  const at::ScalarType dtype = dense_dtype(call.recipe.forward);
  y.copy_(quant::dense_matmul(x.to(dtype), call.weight->dense(dtype).t()));
  if (bias.defined()) y.add_(bias);
}

void int8_forward(const LinearCall& call, const at::Tensor& x, const at::Tensor& bias, const at::Tensor& y) {
  const quant::Int8Weight& weight = call.weight->int8();
  const quant::RowCodes rows = quant::rotate_rows(x, {.block = 1, .absmax_limit = kInt8Max}).absmax;
  quant::int_matmul_out(rows, weight.forward_panels, weight.forward_scales, bias, y);
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

// Limit of the rotated activations' codes that dW multiplies, if they are kept a byte each; 0: packed INT4, or none.
std::int32_t kept_limit(const quant::Recipe& recipe) {
  if (recipe.dw == Product::kInt7) return kInt7Max;
  return recipe.dw == Product::kW4a8 && recipe.keep == quant::Keep::kX8 ? kSplitMax : 0;
}

bool keeps_sr4(const quant::Recipe& recipe) { return recipe.dw == Product::kW4a8 && recipe.keep == quant::Keep::kSr4; }

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
  const at::Tensor rotated = quant::int_matmul(dy, rotated_weight(call, call.recipe.dx).dx_panels, {}, {}, at::kFloat);
  return quant::unrotate(rotated, saved.int4.trust_mask, block_of(call), dtype,
                         call.input.map == quant::RowMap::kGelu ? saved.map_input : at::Tensor());
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
  } else if (kept_limit(call.recipe) != 0) {
    add_product(dy_columns, quant::pack_panels(saved.rows, /*transposed=*/true), {}, sum);
  } else {
    add_product(dy_columns, quant::pack_panels(saved.int4, /*transposed=*/true), {}, sum);
  }
}

// Both bf16 products of backward, from one pass over dY.
void own_bf16_backward(const LinearCall& call, const SavedActivations& saved, const at::Tensor& dy,
                       const LinearWanted& wanted, bool want_dx, bool want_dw, LinearGradients& out) {
  if (!want_dx && !want_dw) return;
  const quant::Bf16Operands operands = quant::bf16_operands(dy, want_dx, want_dw);
  if (want_dx) {
    out.dx = at::empty({dy.size(0), call.in_features}, at::TensorOptions(wanted.dx_dtype));
    quant::bf16_matmul(operands.rows, call.weight->bf16().dx_panels, {}, out.dx);
  }
  if (want_dw) {
    at::Tensor& sum = *wanted.dw;
    const bool add = sum.defined();
    if (!add) sum = at::empty({call.out_features, call.in_features}, at::TensorOptions(at::kFloat));
    quant::bf16_matmul(operands.columns, quant::pack_bf16(saved.dense, /*transposed=*/true), {}, sum, add);
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

// Everything that the forward and dW products read of the rotated input.
quant::RotateRequest rotate_request(const LinearCall& call, bool keep_int4, bool keep_mask) {
  return {.block = block_of(call),
          .int4_packed = keep_int4,
          .int4_left = call.recipe.forward == Product::kRms4,
          .trust_mask = keep_mask,
          .absmax_limit = absmax_limit(call.recipe.forward),
          .map = call.input.map,
          .norm_weight = call.input.norm_weight,
          .norm_bias = call.input.norm_bias};
}

}  // namespace

bool LinearCall::fuses_input() const {
  // Kept codes that forward does not make would need a second pass over the input, and the map again.
  const std::int32_t kept = kept_limit(recipe);
  return is_rotated(recipe.forward) && is_rotated(recipe.dx) && is_rotated(recipe.dw) && !keeps_sr4(recipe) &&
         (kept == 0 || kept == absmax_limit(recipe.forward));
}

at::Tensor linear_forward(const LinearCall& call, const at::Tensor& x, const at::Tensor& bias, bool want_dx,
                          bool want_dw, SavedActivations* saved, const at::Tensor& out) {
  const quant::Recipe& recipe = call.recipe;
  const bool mapped = call.input.map != quant::RowMap::kNone;
  TORCH_CHECK_VALUE(!mapped || call.fuses_input(), "recipe ", recipe.describe(),
                    " multiplies floats or INT8 somewhere, "
                    "so it cannot take its input unmapped");
  const at::ScalarType dtype = call.input.map == quant::RowMap::kLayerNorm ? call.input.norm_dtype : x.scalar_type();
  const at::Tensor y = out.defined() ? out : at::empty({x.size(0), call.out_features}, at::TensorOptions(dtype));
  const bool keep = saved != nullptr && want_dw;
  const std::int32_t kept = keep ? kept_limit(recipe) : 0;
  const bool keep_sr4 = keep && keeps_sr4(recipe);
  const bool keep_int4 = keep && uses_int4(recipe.dw) && kept == 0 && !keep_sr4;
  // Only an rms4 forward clips activations, and only then does dX need their trust mask.
  const bool keep_mask = saved != nullptr && want_dx && is_rotated(recipe.dx) && recipe.forward == Product::kRms4;
  if (saved != nullptr && want_dw && is_dense(recipe.dw)) saved->dense = x.to(dense_dtype(recipe.dw));
  if (saved != nullptr && want_dw && recipe.dw == Product::kInt8)
    saved->int8_columns =
        quant::fold_quantize(x, {.limit = kInt8Max, .rounding = quant::Rounding::kNearestEven, .columns = true})
            .columns;
  quant::RotatedRows rotated;
  if (is_rotated(recipe.forward) || keep_int4) {
    rotated = quant::rotate_rows(x, rotate_request(call, keep_int4, keep_mask));
    if (saved != nullptr) {
      saved->int4 = rotated.int4;
      if (mapped) saved->map_input = x;
      saved->norm_mean = rotated.norm_mean;
      saved->norm_rstd = rotated.norm_rstd;
    }
  }
  if (kept != 0)
    saved->rows = kept == absmax_limit(recipe.forward)
                      ? rotated.absmax
                      : quant::rotate_rows(x, {.block = block_of(call), .absmax_limit = kept}).absmax;
  if (keep_sr4) {
    const at::Tensor mask = saved->int4.trust_mask;  // of an rms4 forward
    saved->int4 = quant::stochastic_int4(x, block_of(call), call.keep_key, call.noise, call.row_offset);
    saved->int4.trust_mask = mask;
  }
  if (is_dense(recipe.forward)) {
    dense_forward(call, x, bias, y);
    return y;
  }
  if (recipe.forward == Product::kInt8) {
    int8_forward(call, x, bias, y);
    return y;
  }
  const RotatedWeight weight = rotated_weight(call, recipe.forward);
  const quant::RowCodes& left = recipe.forward == Product::kRms4 ? rotated.int4_left : rotated.absmax;
  quant::int_matmul_out(left, weight.forward_panels, weight.scales, bias, y);
  return y;
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
      request.column_fold = kept_limit(recipe) != 0 ? saved.rows.scales : saved.int4.scales;
    const quant::FoldedCodes codes = quant::fold_quantize(dy, request);
    if (request.sum) out.bias = codes.sum;
    if (request.rows) out.dx = integer_dx(call, saved, codes.rows, wanted.dx_dtype);
    if (request.columns) add_integer_dw(call, saved, codes.columns, *wanted.dw);
  }
  const bool own_dx = wanted.dx && is_own_bf16(recipe.dx), own_dw = want_dw && is_own_bf16(recipe.dw);
  own_bf16_backward(call, saved, dy, wanted, own_dx, own_dw, out);
  if (wanted.dx && is_dense(recipe.dx) && !own_dx) {
    const at::ScalarType dtype = dense_dtype(recipe.dx);
    out.dx = quant::dense_matmul(dy.to(dtype), call.weight->dense(dtype)).to(wanted.dx_dtype);
  }
  if (want_dw && is_dense(recipe.dw) && !own_dw) add_dense_dw(call, saved, dy, *wanted.dw);
  return out;
}

at::Tensor finish_weight_gradient(const LinearCall& call, const at::Tensor& dw) {
  if (!is_rotated(call.recipe.dw)) return dw;
  return quant::unrotate(dw, rotated_weight(call, call.recipe.dw).trust_mask, block_of(call), at::kFloat);
}

}  // namespace tessera::nn
