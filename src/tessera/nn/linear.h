#pragma once
// A drop-in for torch::nn::Linear whose products follow a recipe.
#include <cstdint>
#include <memory>
#include <string>

#include "tessera/base/philox.h"
#include "tessera/nn/linear_products.h"
#include "tessera/quant/recipe.h"
#include "tessera/quant/torch.h"

namespace tessera::nn {

struct LinearOptions {
  LinearOptions(std::int64_t in_features, std::int64_t out_features)
      : in_features_(in_features), out_features_(out_features) {}

  TORCH_ARG(std::int64_t, in_features);
  TORCH_ARG(std::int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(quant::Recipe, recipe) = quant::Recipe::named("w4a8");
  /// Names the layer's stream of stochastic rounding; layers of one model should differ.
  TORCH_ARG(std::string, name) = "linear";
  TORCH_ARG(std::uint64_t, seed) = 0;
};

/// Y = X W^T + b on inputs [..., in_features] of float32 or bfloat16; the output has the input's dtype. Parameters,
/// their initialization and the archive format are those of torch::nn::Linear. Rotated recipes need in_features to be
/// a multiple of 16. Codes of the weight are cached until it changes.
class LinearImpl : public torch::nn::Cloneable<LinearImpl> {
 public:
  LinearImpl(std::int64_t in_features, std::int64_t out_features)
      : LinearImpl(LinearOptions(in_features, out_features)) {}
  explicit LinearImpl(LinearOptions options);

  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

  /// Every call draws fresh rounding noise from the layer's own counter.
  torch::Tensor forward(const torch::Tensor& input);
  /// With the noise of a given position: what a trainer uses, so that runs replay and recomputation agrees.
  /// `map`: what `input` goes through first, fused where the recipe allows.
  torch::Tensor forward_at(const torch::Tensor& input, const NoisePosition& noise, std::int64_t row_offset = 0,
                           const InputMap& map = {});

  LinearOptions options;
  torch::Tensor weight;  ///< [out_features, in_features] float32
  torch::Tensor bias;    ///< [out_features] float32, or undefined

 private:
  std::shared_ptr<MasterWeight> handle_;
  std::uint32_t calls_ = 0;
};
TORCH_MODULE(Linear);

/// Y of `call` as a differentiable function of `x` [..., D], `weight`, `bias` (may be undefined) and the LayerNorm
/// parameters of `call.input`. Recipes that cannot fuse the input's map apply it before.
torch::Tensor linear(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias, LinearCall call);

}  // namespace tessera::nn
