#pragma once
// How a matrix product gets at its weight. Products hold handles, not tensors: autograd saves the handle, so that a
// gathered weight can go and come back between forward and backward.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/quant/bf16_matmul.h"
#include "tessera/quant/weight_codes.h"

namespace tessera::nn {

class WeightHandle {
 public:
  virtual ~WeightHandle() = default;

  /// Changes whenever the values behind the handle do. Forward and backward of one product must see the same number.
  virtual std::uint64_t version() = 0;

  /// The weight in the form a product multiplies; made once per version. Errors when the weight is not present.
  virtual const quant::Int4Weight& int4(std::int32_t block) = 0;
  virtual const quant::Int7Weight& int7(std::int32_t block) = 0;
  virtual const quant::Int8Weight& int8() = 0;
  virtual const quant::Bf16Weight& bf16() = 0;
  virtual at::Tensor dense(at::ScalarType dtype) = 0;  ///< [C, D], f32 or bf16
};

/// The handle of a weight that this process owns whole: quantizes its master weight and caches the result until the
/// tensor is written to (seen by its version counter and address; writes through Tensor::data() escape both, as they
/// escape autograd).
class MasterWeight : public WeightHandle {
 public:
  /// Point at `weight` [C, D] f32; drops the cache when it is another tensor or has changed.
  void refresh(const at::Tensor& weight);

  std::uint64_t version() override { return version_; }
  const quant::Int4Weight& int4(std::int32_t block) override;
  const quant::Int7Weight& int7(std::int32_t block) override;
  const quant::Int8Weight& int8() override;
  const quant::Bf16Weight& bf16() override;
  at::Tensor dense(at::ScalarType dtype) override;

 private:
  at::Tensor weight_;  // detached: shares storage and version counter with the parameter
  const void* data_ = nullptr;
  std::uint32_t tensor_version_ = 0;
  std::uint64_t version_ = 0;
  std::optional<quant::Int4Weight> int4_;
  std::optional<quant::Int7Weight> int7_;
  std::optional<quant::Int8Weight> int8_;
  std::optional<quant::Bf16Weight> bf16_;
  at::Tensor dense_bf16_;
};

}  // namespace tessera::nn
