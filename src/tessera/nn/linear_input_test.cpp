// LayerNorm and GELU in the pass that rotates and rounds: the same function as each in a pass of its own.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tessera/nn/gelu.h"
#include "tessera/nn/layer_norm.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/testing/autograd_memory.h"

namespace tessera::nn {
namespace {

using quant::Product;
using quant::Recipe;
using quant::RowMap;
using torch::Tensor;
using torch::autograd::variable_list;

// Operands of one layer and the maps before it; gradients of all of them after `run`.
struct Layer {
  explicit Layer(const Recipe& recipe, bool with_bias = true) {
    torch::manual_seed(4);
    x = torch::randn({3, 11, 96}).requires_grad_();
    norm_weight = torch::randn({96}).requires_grad_();
    if (with_bias) norm_bias = torch::randn({96}).requires_grad_();
    linear = Linear(LinearOptions(96, 56).recipe(recipe));
    dy = torch::randn({3, 11, 56});
  }

  InputMap map(RowMap kind, torch::ScalarType dtype = torch::kFloat) const {
    if (kind == RowMap::kLayerNorm)
      return {.map = kind, .norm_weight = norm_weight, .norm_bias = norm_bias, .norm_dtype = dtype};
    return {.map = kind};
  }

  Tensor fused(RowMap kind) { return linear->forward_at(x, {1, 2, 3}, 0, map(kind)); }
  Tensor apart(RowMap kind) {
    const Tensor mapped = kind == RowMap::kGelu ? nn::gelu(x) : layer_norm(x, norm_weight, norm_bias, torch::kFloat);
    return linear->forward_at(mapped, {1, 2, 3}, 0);
  }

  variable_list gradients(const Tensor& y, RowMap kind) const {
    variable_list of = {x, linear->weight, linear->bias};
    if (kind == RowMap::kLayerNorm) of.push_back(norm_weight);
    if (kind == RowMap::kLayerNorm && norm_bias.defined()) of.push_back(norm_bias);
    return torch::autograd::grad({y}, of, {dy});
  }

  Tensor x, norm_weight, norm_bias, dy;
  Linear linear{nullptr};
};

class LinearInput : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, LinearInput, ::testing::ValuesIn(Recipe::names()),
                         [](const auto& info) { return info.param; });

// In f32 nothing is rounded between the passes, so fused and apart are the same bits, for every recipe.
TEST_P(LinearInput, IsTheSameFunctionAsItsOwnPass) {
  for (const RowMap kind : {RowMap::kLayerNorm, RowMap::kGelu})
    for (const bool with_bias : {true, false}) {
      Layer layer(Recipe::named(GetParam()), with_bias);
      const Tensor fused = layer.fused(kind), apart = layer.apart(kind);
      EXPECT_TRUE(fused.equal(apart));
      const variable_list got = layer.gradients(fused, kind), expected = layer.gradients(apart, kind);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << "gradient " << i;
      const torch::NoGradGuard no_grad;
      EXPECT_TRUE(layer.fused(kind).equal(apart));
    }
}

TEST(LinearInputFused, MixedRecipesFuseOrFallBack) {
  for (const auto& [forward, dx, dw, fuses] : {std::tuple{Product::kW4a8, Product::kInt7, Product::kRms4, true},
                                               {Product::kInt7, Product::kInt7, Product::kW4a8, true},
                                               {Product::kW4a8, Product::kW4a8, Product::kInt7, false},
                                               {Product::kW4a8, Product::kBf16, Product::kW4a8, false},
                                               {Product::kInt7, Product::kInt7, Product::kInt8, false}}) {
    const Recipe recipe{forward, dx, dw, 0, quant::Keep::kInt4};
    LinearCall call;
    call.recipe = recipe;
    EXPECT_EQ(call.fuses_input(), fuses) << recipe.describe();
    for (const RowMap kind : {RowMap::kLayerNorm, RowMap::kGelu}) {
      Layer layer(recipe);
      const Tensor fused = layer.fused(kind), apart = layer.apart(kind);
      EXPECT_TRUE(fused.equal(apart)) << recipe.describe();
      const variable_list got = layer.gradients(fused, kind), expected = layer.gradients(apart, kind);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(got[i].equal(expected[i])) << recipe.describe();
    }
  }
}

// Frozen parts: the LayerNorm still learns below a frozen input and weight, and nothing else is computed.
TEST(LinearInputFused, LayerNormLearnsAlone) {
  Layer layer(Recipe::named("w4a8"));
  layer.x = layer.x.detach();
  layer.linear->weight.requires_grad_(false);
  layer.linear->bias.requires_grad_(false);
  const variable_list of = {layer.norm_weight, layer.norm_bias};
  const variable_list got = torch::autograd::grad({layer.fused(RowMap::kLayerNorm)}, of, {layer.dy});
  const variable_list expected = torch::autograd::grad({layer.apart(RowMap::kLayerNorm)}, of, {layer.dy});
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(got[i].equal(expected[i]));
}

// bf16 activations: the mapped input is never rounded to bf16, Y and what flows back are.
TEST(LinearInputFused, Bf16IsTheTypeOfWhatIsStored) {
  Layer layer(Recipe::named("w4a8"));
  const InputMap norm = layer.map(RowMap::kLayerNorm, torch::kBFloat16);
  const Tensor y = layer.linear->forward_at(layer.x, {1, 2, 3}, 0, norm);
  EXPECT_EQ(y.scalar_type(), torch::kBFloat16);
  EXPECT_TRUE(y.equal(layer.apart(RowMap::kLayerNorm).to(torch::kBFloat16)));
  const Tensor dx = torch::autograd::grad({y}, {layer.x}, {layer.dy.to(torch::kBFloat16)})[0];
  EXPECT_EQ(dx.scalar_type(), torch::kFloat);

  const Tensor h = layer.x.detach().to(torch::kBFloat16).requires_grad_();
  const Tensor z = layer.linear->forward_at(h, {1, 2, 3}, 0, layer.map(RowMap::kGelu));
  EXPECT_EQ(z.scalar_type(), torch::kBFloat16);
  EXPECT_EQ(torch::autograd::grad({z}, {h}, {layer.dy.to(torch::kBFloat16)})[0].scalar_type(), torch::kBFloat16);
}

// What stays for backward: INT4 codes, two or no floats a row, and no float of the mapped input.
TEST(LinearInputFused, KeepsNoMappedInput) {
  constexpr std::int64_t kRows = 3 * 11, kAlign = 64;
  const auto rounded = [](std::int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; };
  for (const RowMap kind : {RowMap::kLayerNorm, RowMap::kGelu}) {
    Layer layer(Recipe::named("w4a8"));
    layer.fused(kind);  // codes of the weight are cached from here on
    const testing::AllocationScope scope;
    const Tensor y = layer.fused(kind);
    const std::int64_t codes = kRows * 96 / 2 + kRows * 4, moments = kind == RowMap::kLayerNorm ? 2 * kRows * 4 : 0;
    EXPECT_GE(scope.live_bytes(), kRows * 56 * 4 + codes + moments);
    EXPECT_LE(scope.live_bytes(), rounded(kRows * 56 * 4) + rounded(codes) + rounded(moments) + 4 * kAlign);
  }
}

TEST(LinearInputFused, ErrorsAreSentences) {
  Layer layer(Recipe::named("w4a8"));
  const auto message = [](auto f) {
    try {
      f();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const InputMap norm = layer.map(RowMap::kLayerNorm);
  EXPECT_NE(message([&] {
              layer.linear->forward_at(layer.x.to(torch::kBFloat16), {1, 2, 3}, 0, norm);
            }).find("BFloat16"),
            std::string::npos);
  LinearCall call;
  call.recipe = Recipe::named("bf16");
  call.input.map = RowMap::kGelu;
  EXPECT_NE(message([&] {
              linear_forward(call, layer.x.view({-1, 96}), {}, false, false, nullptr);
            }).find("recipe bf16"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::nn
