#pragma once
// A linear layer's three products by recipe, outside autograd (spec section 7; shapes as in DESIGN.md section 1):
//   Y = X W^T + b        dX = dY W        dW = dY^T X
// One code path for nn::Linear and for the head, which runs it chunk by chunk.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "tessera/base/philox.h"
#include "tessera/nn/weight_handle.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/recipe.h"

namespace tessera::nn {

/// What a layer's input goes through on its way into the product: in one pass with rotation and rounding.
struct InputMap {
  quant::RowMap map = quant::RowMap::kNone;
  at::Tensor norm_weight{}, norm_bias{};   ///< [D] f32 of kLayerNorm; the bias may be undefined
  at::ScalarType norm_dtype = at::kFloat;  ///< of a LayerNorm's output, and so of Y
};

/// One use of a weight.
struct LinearCall {
  std::shared_ptr<WeightHandle> weight;
  std::int64_t in_features = 0, out_features = 0;
  quant::Recipe recipe;
  PhiloxKey noise_key;  ///< of this parameter's gradient roundings
  PhiloxKey keep_key;   ///< of the activations that w4a8 keeps as sr4
  NoisePosition noise;
  std::int64_t row_offset = 0;  ///< global index of the first token row
  InputMap input{};             ///< only for recipes that fuse it

  /// Whether the products take codes only, so that nobody needs the mapped input itself.
  bool fuses_input() const;
};

/// What backward needs of X; the recipe decides which part is defined.
struct SavedActivations {
  at::Tensor dense;              ///< [N, D] f32 or bf16: dW in floating point
  quant::Int4Codes int4;         ///< packed codes and scales: dW in INT4; trust mask: dX after an rms4 forward
  quant::RowCodes rows;          ///< rotated X, a byte each: dW in int7, or in w4a8 with kept X8
  quant::RowCodes int8_columns;  ///< X^T [D, N]: dW in INT8
  at::Tensor map_input;          ///< [N, D], x before GELU or LayerNorm
  at::Tensor norm_mean, norm_rstd;
};

/// Y [N, C] in the dtype of `x` [N, D] (f32 or bf16) or of its LayerNorm; `bias` [C] f32 or undefined. Fills `saved` with what the wanted
/// gradients need; null: none. `out` [N, C] f32 or bf16, if defined, is written and returned in place of a new tensor.
at::Tensor linear_forward(const LinearCall& call, const at::Tensor& x, const at::Tensor& bias, bool want_dx,
                          bool want_dw, SavedActivations* saved, const at::Tensor& out = {});

struct LinearGradients {
  at::Tensor dx;    ///< [N, D], dtype as asked, or undefined; of x before GELU, of LayerNorm's output
  at::Tensor bias;  ///< [C] f32, of the unquantized dY, or undefined
};

/// What backward is asked for. `dw`: null when not wanted; an undefined tensor is made, a defined one added to: [C, D] f32
/// in the domain of the recipe's dW product, for finish_weight_gradient.
struct LinearWanted {
  bool dx = false, bias = false;
  at::ScalarType dx_dtype = at::kFloat;
  at::Tensor* dw = nullptr;
};
LinearGradients linear_backward(const LinearCall& call, const SavedActivations& saved, const at::Tensor& dy,
                                const LinearWanted& wanted);

/// From the domain of the dW product to the weight's own: trust mask if there is one, then inverse rotation, for
/// rotated products; the owner's part.
at::Tensor finish_weight_gradient(const LinearCall& call, const at::Tensor& dw);

}  // namespace tessera::nn
