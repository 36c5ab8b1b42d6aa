#include "tessera/quant/codes.h"

#include <ATen/ops/empty.h>

#include <limits>

#include "tessera/base/int4.h"
#include "tessera/base/math.h"
#include "tessera/base/part_timers.h"
#include "tessera/kernels/dequantize/dequantize.h"
#include "tessera/kernels/igemm/igemm.h"
#include "tessera/kernels/unrotate/unrotate.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::quant {
namespace {

void check_matrix(const at::Tensor& x) {
  TORCH_CHECK_VALUE(x.dim() == 2, "expected a matrix, got shape ", x.sizes());
  TORCH_CHECK_VALUE(x.numel() == 0 || x.size(1) == 1 || x.stride(1) == 1, "expected contiguous columns, got strides ",
                    x.strides());
}

const float* floats_or_null(const at::Tensor& x, std::int64_t size, const char* what) {
  if (!x.defined()) return nullptr;
  TORCH_CHECK_VALUE(x.scalar_type() == at::kFloat && x.is_contiguous() && x.numel() == size, what, " is ",
                    x.scalar_type(), " ", x.sizes(), ", expected ", size, " contiguous float32");
  return x.const_data_ptr<float>();
}

at::Tensor empty(at::IntArrayRef shape, at::ScalarType dtype) { return at::empty(shape, at::TensorOptions(dtype)); }

RowCodes empty_row_codes(std::int64_t rows, std::int64_t cols, std::int32_t limit) {
  return {rows, cols, empty({rows, kernels::igemm_a_stride(cols)}, at::kChar), empty({rows}, at::kFloat), limit};
}

Panels pack(const kernels::PackSource& source, std::int64_t n, std::int64_t k, std::int32_t limit) {
  const ScopedPart part(Part::kPackPanels);
  use_torch_threads();
  Panels panels{n, k, empty({kernels::igemm_packed_b_bytes(n, k)}, at::kChar), limit};
  kernels::igemm_pack_b(source, {panels.data.mutable_data_ptr<std::int8_t>(), n, k, limit});
  return panels;
}

kernels::IgemmParams product_params(const RowCodes& a, const Panels& b, const at::Tensor& out) {
  TORCH_CHECK_VALUE(a.cols == b.k, "left operand contracts over ", a.cols, ", right operand over ", b.k);
  const std::int64_t most_terms = std::numeric_limits<std::int32_t>::max() / (a.limit * b.limit);
  TORCH_CHECK_VALUE(a.cols <= most_terms, "the product contracts over ", a.cols, " terms, more than the ", most_terms,
                    " for which codes up to ", a.limit, " and ", b.limit, " fit INT32; use smaller micro-batches");
  kernels::IgemmParams params;
  params.m = a.rows;
  params.a = a.codes.const_data_ptr<std::int8_t>();
  params.a_stride = a.codes.stride(0);
  params.a_limit = a.limit;
  params.b = {const_cast<std::int8_t*>(b.data.const_data_ptr<std::int8_t>()), b.n, b.k, b.limit};
  params.row_scale = a.scales.const_data_ptr<float>();
  params.out = mutable_float_rows(out);
  return params;
}

void unrotate_out(const at::Tensor& t, const at::Tensor& mask, std::int32_t block, const at::Tensor& gelu_x,
                  const at::Tensor& y) {
  const ScopedPart part(Part::kUnrotate);
  use_torch_threads();
  kernels::UnrotateParams params;
  params.rows = t.size(0);
  params.cols = t.size(1);
  params.block = block;
  params.t = float_rows(t);
  params.mask = mask.defined() ? mask.const_data_ptr<std::uint8_t>() : nullptr;
  params.y = mutable_float_rows(y);
  if (gelu_x.defined()) {
    TORCH_CHECK_VALUE(
        gelu_x.scalar_type() == y.scalar_type() && gelu_x.sizes() == y.sizes() && gelu_x.strides() == y.strides(),
        "GELU's input is ", gelu_x.scalar_type(), " ", gelu_x.sizes(), ", expected ", y.scalar_type(), " ", y.sizes(),
        " with the same strides");
    params.gelu_x = gelu_x.const_data_ptr();
  }
  kernels::unrotate(params);
}

}  // namespace

kernels::FloatRows float_rows(const at::Tensor& x) {
  check_matrix(x);
  return {x.const_data_ptr(), float_type(x.scalar_type()), x.stride(0)};
}

kernels::MutableFloatRows mutable_float_rows(const at::Tensor& x) {
  check_matrix(x);
  return {x.mutable_data_ptr(), float_type(x.scalar_type()), x.stride(0)};
}

kernels::FloatType float_type(at::ScalarType dtype) {
  TORCH_CHECK_TYPE(dtype == at::kFloat || dtype == at::kBFloat16, "dtype is ", dtype, ", expected float32 or bfloat16");
  return dtype == at::kFloat ? kernels::FloatType::kF32 : kernels::FloatType::kBf16;
}

RotatedRows rotate_rows(const at::Tensor& x, const RotateRequest& request) {
  const ScopedPart part(Part::kRotateQuantize);
  use_torch_threads();
  kernels::RotateQuantizeParams params;
  params.x = float_rows(x);
  const std::int64_t rows = params.rows = x.size(0), cols = params.cols = x.size(1);
  TORCH_CHECK_VALUE(request.block == 1 || cols % request.block == 0, "width is ", cols, ", which Hadamard block ",
                    request.block, " does not divide");
  TORCH_CHECK_VALUE(request.map == RowMap::kNone || cols % 16 == 0, "width of a mapped matrix is ", cols,
                    ", expected a multiple of 16");
  TORCH_CHECK_TYPE(request.map != RowMap::kLayerNorm || x.scalar_type() == at::kFloat, "LayerNorm's input is ",
                   x.scalar_type(), ", expected float32");
  params.block = request.block;
  params.code_stride = kernels::igemm_a_stride(cols);
  RotatedRows out;
  if (request.int4_packed || request.int4_left) {
    out.int4 = {rows, cols, request.block, {}, empty({rows}, at::kFloat), {}};
    params.int4_scales = out.int4.scales.mutable_data_ptr<float>();
  }
  if (request.int4_packed) {
    out.int4.packed = empty({rows, int4_bytes(cols)}, at::kByte);
    params.int4_packed = out.int4.packed.mutable_data_ptr<std::uint8_t>();
  }
  if (request.trust_mask) {
    out.int4.trust_mask = empty({rows, div_ceil<std::int64_t>(cols, 8)}, at::kByte);
    params.trust_mask = out.int4.trust_mask.mutable_data_ptr<std::uint8_t>();
  }
  if (request.int4_left) {
    out.int4_left = {rows, cols, empty({rows, params.code_stride}, at::kChar), out.int4.scales, kInt4Max};
    params.int4_codes = out.int4_left.codes.mutable_data_ptr<std::int8_t>();
  }
  if (request.absmax_limit != 0) {
    out.absmax = empty_row_codes(rows, cols, request.absmax_limit);
    params.absmax_codes = out.absmax.codes.mutable_data_ptr<std::int8_t>();
    params.absmax_scales = out.absmax.scales.mutable_data_ptr<float>();
    params.absmax_limit = request.absmax_limit;
  }
  params.map = request.map;
  if (request.map == RowMap::kLayerNorm) {
    out.norm_mean = empty({rows}, at::kFloat);
    out.norm_rstd = empty({rows}, at::kFloat);
    params.layer_norm.weight = floats_or_null(request.norm_weight, cols, "norm weight");
    params.layer_norm.bias = floats_or_null(request.norm_bias, cols, "norm bias");
    params.layer_norm.mean = out.norm_mean.mutable_data_ptr<float>();
    params.layer_norm.rstd = out.norm_rstd.mutable_data_ptr<float>();
  }
  kernels::rotate_quantize(params);
  return out;
}

Int4Codes stochastic_int4(const at::Tensor& x, std::int32_t block, PhiloxKey key, NoisePosition noise,
                          std::int64_t row_offset) {
  const at::Tensor rotated = empty(x.sizes(), at::kFloat);
  unrotate_out(x, {}, block, {}, rotated);  // the rotation is its own inverse
  const RowCodes rows = fold_quantize(rotated, {.limit = kInt4Max,
                                                .rounding = Rounding::kStochastic,
                                                .key = key,
                                                .noise = noise,
                                                .row_offset = row_offset,
                                                .rows = true})
                            .rows;
  TORCH_CHECK_VALUE(rows.cols % 2 == 0, "width is ", rows.cols, ", expected a multiple of 2");
  const at::Tensor codes = rows.codes.narrow(1, 0, rows.cols).bitwise_and(15).view({rows.rows, rows.cols / 2, 2});
  const at::Tensor packed = codes.select(2, 1).mul(16).bitwise_or(codes.select(2, 0)).contiguous().view(at::kByte);
  return {rows.rows, rows.cols, block, packed, rows.scales, {}};
}

FoldedCodes fold_quantize(const at::Tensor& y, const FoldRequest& request) {
  const ScopedPart part(Part::kFoldQuantize);
  use_torch_threads();
  kernels::FoldQuantizeParams params;
  params.y = float_rows(y);
  const std::int64_t rows = params.rows = y.size(0), cols = params.cols = y.size(1);
  params.limit = request.limit;
  params.rounding = request.rounding;
  params.key = request.key;
  params.step = request.noise.step;
  params.micro_batch = request.noise.micro_batch;
  params.row_offset = narrow<std::uint32_t>(request.row_offset, "row offset");
  FoldedCodes out;
  if (request.rows) {
    out.rows = empty_row_codes(rows, cols, request.limit);
    params.row_fold = floats_or_null(request.row_fold, cols, "row fold");
    params.row_codes = out.rows.codes.mutable_data_ptr<std::int8_t>();
    params.row_scales = out.rows.scales.mutable_data_ptr<float>();
    params.row_stride = out.rows.codes.stride(0);
  }
  if (request.columns) {
    out.columns = empty_row_codes(cols, rows, request.limit);
    params.column_fold = floats_or_null(request.column_fold, rows, "column fold");
    params.column_codes = out.columns.codes.mutable_data_ptr<std::int8_t>();
    params.column_scales = out.columns.scales.mutable_data_ptr<float>();
    params.column_stride = out.columns.codes.stride(0);
  }
  if (request.sum) {
    out.sum = empty({cols}, at::kFloat);
    params.column_sum = out.sum.mutable_data_ptr<float>();
  }
  const at::Tensor workspace = empty({kernels::fold_quantize_workspace(params)}, at::kByte);
  kernels::fold_quantize(params, workspace.mutable_data_ptr());
  return out;
}

Panels pack_panels(const Int4Codes& codes, bool transposed) {
  kernels::PackSource source;
  source.int4_packed = codes.packed.const_data_ptr<std::uint8_t>();
  source.row_bytes = codes.packed.stride(0);
  source.transposed = transposed;
  return transposed ? pack(source, codes.cols, codes.rows, kInt4Max) : pack(source, codes.rows, codes.cols, kInt4Max);
}

Panels pack_panels(const RowCodes& codes, bool transposed) {
  kernels::PackSource source;
  source.codes = codes.codes.const_data_ptr<std::int8_t>();
  source.row_bytes = codes.codes.stride(0);
  source.transposed = transposed;
  return transposed ? pack(source, codes.cols, codes.rows, codes.limit)
                    : pack(source, codes.rows, codes.cols, codes.limit);
}

at::Tensor int_matmul(const RowCodes& a, const Panels& b, const at::Tensor& col_scale, const at::Tensor& bias,
                      at::ScalarType dtype) {
  const at::Tensor out = empty({a.rows, b.n}, dtype);
  int_matmul_out(a, b, col_scale, bias, out);
  return out;
}

void int_matmul_out(const RowCodes& a, const Panels& b, const at::Tensor& col_scale, const at::Tensor& bias,
                    const at::Tensor& out) {
  const ScopedPart part(Part::kIntMatmul);
  use_torch_threads();
  TORCH_CHECK_VALUE(out.dim() == 2 && out.size(0) == a.rows && out.size(1) == b.n, "output is ", out.sizes(),
                    ", expected [", a.rows, ", ", b.n, "]");
  kernels::IgemmParams params = product_params(a, b, out);
  params.col_scale = floats_or_null(col_scale, b.n, "column scale");
  params.bias = floats_or_null(bias, b.n, "bias");
  kernels::igemm(params);
}

void int_matmul_add(const RowCodes& a, const Panels& b, const at::Tensor& out) {
  const ScopedPart part(Part::kIntMatmul);
  use_torch_threads();
  TORCH_CHECK_VALUE(out.scalar_type() == at::kFloat && out.dim() == 2 && out.size(0) == a.rows && out.size(1) == b.n,
                    "sum is ", out.scalar_type(), " ", out.sizes(), ", expected float32 [", a.rows, ", ", b.n, "]");
  kernels::IgemmParams params = product_params(a, b, out);
  params.accumulate = true;
  kernels::igemm(params);
}

at::Tensor unrotate(const at::Tensor& t, const at::Tensor& mask, std::int32_t block, at::ScalarType dtype,
                    const at::Tensor& gelu_x) {
  at::Tensor y = dtype == t.scalar_type() ? t : empty(t.sizes(), dtype);
  unrotate_out(t, mask, block, gelu_x, y);
  return y;
}

at::Tensor dequantize(const Int4Codes& codes) {
  use_torch_threads();
  at::Tensor y = empty({codes.rows, codes.cols}, at::kFloat);
  kernels::DequantizeParams params;
  params.rows = codes.rows;
  params.cols = codes.cols;
  params.int4_packed = codes.packed.const_data_ptr<std::uint8_t>();
  params.scales = codes.scales.const_data_ptr<float>();
  params.y = mutable_float_rows(y);
  kernels::dequantize(params);
  return y;
}

}  // namespace tessera::quant
