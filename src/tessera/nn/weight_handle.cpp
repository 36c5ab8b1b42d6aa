#include "tessera/nn/weight_handle.h"

#include <ATen/Tensor.h>

#include "tessera/base/part_timers.h"

namespace tessera::nn {

void MasterWeight::refresh(const at::Tensor& weight) {
  const void* data = weight.const_data_ptr();
  const auto tensor_version = static_cast<std::uint32_t>(weight._version());
  if (weight_.defined() && data == data_ && tensor_version == tensor_version_) return;
  TORCH_CHECK_TYPE(weight.scalar_type() == at::kFloat, "weight is ", weight.scalar_type(),
                   ", expected float32: the master weight of a quantized layer");
  weight_ = weight.detach();
  data_ = data;
  tensor_version_ = tensor_version;
  ++version_;
  int4_.reset();
  int7_.reset();
  int8_.reset();
  bf16_.reset();
  dense_bf16_.reset();
}

const quant::Int4Weight& MasterWeight::int4(std::int32_t block) {
  if (!int4_ || int4_->codes.block != block) int4_ = quant::make_int4_weight(weight_, block);
  return *int4_;
}

const quant::Int7Weight& MasterWeight::int7(std::int32_t block) {
  if (!int7_ || int7_->block != block) int7_ = quant::make_int7_weight(weight_, block);
  return *int7_;
}

const quant::Int8Weight& MasterWeight::int8() {
  if (!int8_) int8_ = quant::make_int8_weight(weight_);
  return *int8_;
}

const quant::Bf16Weight& MasterWeight::bf16() {
  if (!bf16_) bf16_ = quant::make_bf16_weight(weight_);
  return *bf16_;
}

at::Tensor MasterWeight::dense(at::ScalarType dtype) {
  if (dtype == at::kFloat) return weight_;
  const ScopedPart part(Part::kWeightCodes);
  if (!dense_bf16_.defined()) dense_bf16_ = weight_.to(dtype);
  return dense_bf16_;
}

}  // namespace tessera::nn
