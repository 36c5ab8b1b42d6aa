#include "tessera/nn/linear.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "tessera/base/check.h"
#include "tessera/kernels/igemm/igemm.h"
#include "tessera/nn/testing/autograd_memory.h"
#include "tessera/nn/testing/oracle.h"
#include "tessera/nn/testing/ratio_test.h"

namespace tessera::nn {
namespace {

using quant::Product;
using quant::Recipe;
using testing::hadamard;
using testing::RatioTest;
using torch::Tensor;

Linear make(std::int64_t in, std::int64_t out, const std::string& recipe, bool bias = true) {
  torch::manual_seed(1);
  return Linear(LinearOptions(in, out).bias(bias).recipe(Recipe::named(recipe)));
}

double relative(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(torch::kDouble), y = b.detach().to(torch::kDouble);
  return ((x - y).norm() / y.norm()).item<double>();
}

class LinearRecipes : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, LinearRecipes, ::testing::ValuesIn(Recipe::names()),
                         [](const auto& info) { return info.param; });

// Relative error of Y, dX, dW on Gaussian data against exact fp64: what each format must deliver and not miss.
// rms4: sqrt(2 * 0.012889) = 0.160 forward (spec 7.7.5); w4a8: sqrt(0.012889) = 0.1135 from the weight alone.
// int7: a Gaussian row of 256 has absmax 2.97, so one nearest rounding is 2.97 / 63 / sqrt 12 = 0.0136 and two are
// 0.019; a stochastic rounding is sqrt 2 times the nearest, which makes 0.023 of the gradients.
TEST_P(LinearRecipes, FidelityOnGaussianData) {
  Linear layer = make(256, 192, GetParam());
  const Tensor x = torch::randn({160, 256}).requires_grad_(), dy = torch::randn({160, 192});
  const Tensor y = layer->forward(x);
  y.backward(dy);
  const Tensor w = layer->weight.detach().to(torch::kDouble), xd = x.detach().to(torch::kDouble),
               dyd = dy.to(torch::kDouble);
  const double forward = relative(y - layer->bias, xd.matmul(w.t()));
  const double dx = relative(x.grad(), dyd.matmul(w)), dw = relative(layer->weight.grad(), dyd.t().matmul(xd));
  struct Bound {
    double forward_low, forward_high, backward_high;
  };
  // fp32: eps 6e-8 times the random walk over 256 terms; bf16: two roundings of 2^-9 / sqrt 3; int8: absmax / 127.
  const std::map<std::string, Bound> bounds = {{"fp32", {0, 1e-6, 1e-6}},        {"bf16", {1e-4, 4e-3, 4e-3}},
                                               {"int8", {2e-3, 1.5e-2, 1.5e-2}}, {"int7", {1.5e-2, 2.3e-2, 2.7e-2}},
                                               {"rms4", {0.12, 0.19, 0.19}},     {"w4a8", {0.08, 0.14, 0.16}}};
  const Bound bound = bounds.at(GetParam());
  EXPECT_GE(forward, bound.forward_low);
  EXPECT_LE(forward, bound.forward_high);
  EXPECT_LE(dx, bound.backward_high);
  EXPECT_LE(dw, bound.backward_high);
  EXPECT_LE(relative(layer->bias.grad(), dyd.sum(0)), 1e-6);  // T16: of the unquantized gradient
}

TEST_P(LinearRecipes, ShapesAndDtypes) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16})
    for (const std::int64_t rows : {0, 1, 7, 33}) {
      Linear layer = make(48, 37, GetParam());
      Tensor x = torch::randn({rows, 48}).to(dtype).requires_grad_();
      const Tensor y = layer->forward(x);
      EXPECT_EQ(y.sizes(), at::IntArrayRef({rows, 37}));
      EXPECT_EQ(y.scalar_type(), dtype);
      y.sum().backward();
      EXPECT_EQ(x.grad().scalar_type(), dtype);
      EXPECT_EQ(layer->weight.grad().scalar_type(), torch::kFloat32);
      EXPECT_TRUE(layer->weight.grad().isfinite().all().item<bool>());
      if (rows == 0) {
        EXPECT_EQ(layer->weight.grad().abs().sum().item<float>(), 0);
      }
    }
  Linear layer = make(32, 16, GetParam());
  EXPECT_EQ(layer->forward(torch::randn({2, 3, 32})).sizes(), at::IntArrayRef({2, 3, 16}));
  EXPECT_EQ(layer->forward(torch::randn({32})).sizes(), at::IntArrayRef({16}));
}

// Values of the codes that int7 makes of x: fp64, rotated.
Tensor seven_bits(const Tensor& x, std::int32_t block) {
  return testing::values(quant::rotate_rows(x, {.block = block, .absmax_limit = 63}).absmax);
}

// T4: Y equals the fp64 product of the dequantized operands, to fp32 rounding of one product and two scalings.
TEST(LinearForward, EqualsProductOfItsCodes) {
  for (const std::string name : {"rms4", "w4a8"}) {
    Linear layer = make(144, 80, name, /*bias=*/false);  // Hadamard block 16
    const Tensor x = torch::randn({37, 144});
    const auto weight = quant::make_int4_weight(layer->weight, 16).codes;
    const auto rows = quant::rotate_rows(x, {.block = 16, .int4_left = true, .absmax_limit = 98});
    const Tensor left = testing::values(name == "rms4" ? rows.int4_left : rows.absmax);
    EXPECT_LE(relative(layer->forward(x), left.matmul(testing::values(weight).t())), 1e-6) << name;
  }
}

TEST(LinearForward, Int7EqualsProductOfItsCodes) {
  Linear layer = make(144, 80, "int7", /*bias=*/false);
  const Tensor x = torch::randn({37, 144});
  const Tensor y = seven_bits(x, 16).matmul(seven_bits(layer->weight.detach(), 16).t());
  EXPECT_LE(relative(layer->forward(x), y), 1e-6);
}

struct Exact {
  Tensor dx, dw;
};
// Gradients of the quantized forward with straight-through masks (spec 7.7.3, 7.9), fp64.
Exact exact_gradients(const Tensor& x, const Tensor& weight, const Tensor& dy, std::int32_t block, bool x_mask) {
  const auto w = quant::make_int4_weight(weight, block).codes;
  const auto rows = quant::rotate_rows(x, {.block = block, .int4_packed = true, .trust_mask = true}).int4;
  const Tensor h = hadamard(x.size(1), block), dyd = dy.to(torch::kDouble);
  const Tensor mx = testing::unpack_mask(x_mask ? rows.trust_mask : Tensor(), rows.rows, rows.cols);
  const Tensor mw = testing::unpack_mask(w.trust_mask, w.rows, w.cols);
  return {(mx * dyd.matmul(testing::values(w))).matmul(h), (mw * dyd.t().matmul(testing::values(rows))).matmul(h)};
}

// Mean and variance of stochastic gradients over 64 positions of their noise, for a layer [128 -> 96].
struct Draws {
  explicit Draws(Linear layer) {
    for (std::uint32_t draw = 0; draw < 64; ++draw) {
      layer->zero_grad();
      x.mutable_grad() = Tensor();
      layer->forward_at(x, {.seed = 3, .step = 5, .micro_batch = draw}).backward(dy);
      dx.add(x.grad());
      dw.add(layer->weight.grad());
    }
  }
  // Rows of very different size.
  Tensor x = (torch::randn({112, 128}) * torch::randn({112, 1}).exp()).requires_grad_();
  Tensor dy = torch::randn({112, 96}) * torch::randn({112, 1}).exp();
  RatioTest dx, dw;
};

void expect_unbiased(double ratio, const std::string& what) {
  EXPECT_GE(ratio, 0.9) << what;
  EXPECT_LE(ratio, 1.1) << what;
}

// T12: the stochastic gradients are unbiased for the exact ones, and the same test sees what is biased.
TEST(LinearBackward, GradientsAreUnbiased) {
  for (const std::string name : {"rms4", "w4a8"}) {
    Linear layer = make(128, 96, name);
    const Draws draws(layer);
    const Tensor x = draws.x.detach(), weight = layer->weight.detach();
    const Exact exact = exact_gradients(x, weight, draws.dy, 128, name == "rms4");
    expect_unbiased(draws.dx.ratio(exact.dx), name + " dX");
    expect_unbiased(draws.dw.ratio(exact.dw), name + " dW");
    // Teeth: leaving out the trust mask, or the per-channel scale folded into dY, is seen.
    const Exact wrong = exact_gradients(x, weight, draws.dy, 128, name != "rms4");
    EXPECT_GT(draws.dx.ratio(wrong.dx), 1.5) << name;
    const Tensor scales = quant::make_int4_weight(weight, 128).codes.scales;
    const Tensor unfolded = draws.dy * (scales.mean() / scales);
    EXPECT_GT(draws.dx.ratio(exact_gradients(x, weight, unfolded, 128, name == "rms4").dx), 1.5) << name;
  }
}

// In int7 nothing clips: the gradients are those of the product of its codes (spec 7.10), rotated back.
TEST(LinearBackward, Int7GradientsAreUnbiased) {
  Linear layer = make(128, 96, "int7");
  const Draws draws(layer);
  const Tensor x = draws.x.detach(), weight = layer->weight.detach(), h = hadamard(128, 128);
  const Tensor dy = draws.dy.to(torch::kDouble), w7 = seven_bits(weight, 128), x7 = seven_bits(x, 128);
  expect_unbiased(draws.dx.ratio(dy.matmul(w7).matmul(h)), "dX");
  expect_unbiased(draws.dw.ratio(dy.t().matmul(x7).matmul(h)), "dW");
  // Teeth: the other operand's own rounding is seen, and so is a scale that was not folded into dY.
  EXPECT_GT(draws.dx.ratio(dy.matmul(weight.to(torch::kDouble))), 1.5);
  EXPECT_GT(draws.dw.ratio(dy.t().matmul(x.to(torch::kDouble))), 1.5);
  const Tensor scales = quant::make_int7_weight(weight, 128).scales.to(torch::kDouble);
  EXPECT_GT(draws.dx.ratio((dy * (scales.mean() / scales)).matmul(w7).matmul(h)), 1.5);
}

// T12 for what w4a8 may keep of X: sr4 is unbiased for the rotated X itself, x8 for the codes that forward multiplied.
TEST(LinearBackward, KeptActivationsAreThoseOfTheirName) {
  std::map<std::string, double> error;
  for (const std::string keep : {"int4", "sr4", "x8"}) {
    Recipe recipe = Recipe::named("w4a8");
    recipe.set_keep(keep);
    torch::manual_seed(1);
    Linear layer(LinearOptions(128, 96).recipe(recipe));
    const Draws draws(layer);
    const Tensor x = draws.x.detach(), h = hadamard(128, 128), dy = draws.dy.to(torch::kDouble);
    const auto w = quant::make_int4_weight(layer->weight.detach(), 128).codes;
    const Tensor mask = testing::unpack_mask(w.trust_mask, w.rows, w.cols);
    const Tensor x8 = testing::values(quant::rotate_rows(x, {.block = 128, .absmax_limit = 98}).absmax);
    const Tensor x4 = testing::values(quant::rotate_rows(x, {.block = 128, .int4_packed = true}).int4);
    const Tensor rotated = x.to(torch::kDouble).matmul(h);
    const auto exact = [&](const Tensor& kept) { return (mask * dy.t().matmul(kept)).matmul(h); };
    expect_unbiased(draws.dw.ratio(exact(keep == "int4" ? x4 : keep == "x8" ? x8 : rotated)), keep);
    // Teeth: the codes of another name are seen, but for x8 and sr4, whose expectations differ by 1/98 only.
    EXPECT_GT(draws.dw.ratio(exact(keep == "int4" ? rotated : x4)), 1.5) << keep;
    error[keep] = draws.dw.variance();
  }
  EXPECT_GT(error["sr4"], 10 * error["x8"]);  // (1/7)^2 against (1/98)^2 of the maximum, and dY's own noise in both
}

TEST(LinearBackward, NoiseFollowsItsPositionOnly) {
  Linear layer = make(64, 32, "w4a8");
  const Tensor x = torch::randn({20, 64}), dy = torch::randn({20, 32});
  const auto gradient = [&](const NoisePosition& noise, std::int64_t offset) {
    layer->zero_grad();
    layer->forward_at(x, noise, offset).backward(dy);
    return layer->weight.grad().clone();
  };
  const Tensor base = gradient({1, 2, 3}, 0);
  EXPECT_TRUE(torch::equal(base, gradient({1, 2, 3}, 0)));
  for (const auto& [noise, offset] : {std::pair{NoisePosition{2, 2, 3}, 0},
                                      {NoisePosition{1, 3, 3}, 0},
                                      {NoisePosition{1, 2, 4}, 0},
                                      {NoisePosition{1, 2, 3}, 20}})
    EXPECT_FALSE(torch::equal(base, gradient(noise, offset)));
  Linear other(LinearOptions(64, 32).recipe(Recipe::named("w4a8")).name("other"));
  {
    const torch::NoGradGuard no_grad;
    other->weight.copy_(layer->weight);
  }
  other->forward_at(x, {1, 2, 3}).backward(dy);
  EXPECT_FALSE(torch::equal(base, other->weight.grad()));
}

// Invariant 1: between two optimizer steps every use multiplies the same codes.
TEST(LinearWeight, QuantizedOncePerChange) {
  MasterWeight handle;
  Tensor weight = torch::randn({32, 64});
  handle.refresh(weight);
  const void* codes = handle.int4(64).codes.packed.const_data_ptr();
  const std::uint64_t version = handle.version();
  handle.refresh(weight);
  EXPECT_EQ(handle.int4(64).codes.packed.const_data_ptr(), codes);
  EXPECT_EQ(handle.version(), version);
  const Tensor scales = handle.int7(64).scales;
  EXPECT_TRUE(handle.int7(64).scales.is_same(scales));
  EXPECT_FALSE(handle.int7(32).scales.is_same(scales));  // another block, other codes
  weight.mul_(2);                                        // what an optimizer does
  handle.refresh(weight);
  EXPECT_NE(handle.version(), version);
  EXPECT_TRUE(torch::equal(handle.int7(64).scales, 2 * scales));
  weight.set_data(torch::randn({32, 64}));  // what loading does
  const std::uint64_t before = handle.version();
  handle.refresh(weight);
  EXPECT_NE(handle.version(), before);
}

// dX multiplies the forward's weight codes: their values reach dX exactly when dY is a row of the identity.
TEST(LinearBackward, DxMultipliesTheForwardCodes) {
  for (const std::string name : {"w4a8", "int7"}) {
    Linear layer = make(64, 16, name, /*bias=*/false);
    Tensor x = torch::randn({16, 64}).requires_grad_();
    layer->forward(x).backward(torch::eye(16));  // a lone value is its row's maximum: the largest code, no rounding
    const Tensor values = name == "int7" ? seven_bits(layer->weight.detach(), 64)
                                         : testing::values(quant::make_int4_weight(layer->weight, 64).codes);
    EXPECT_LE(relative(x.grad(), values.matmul(hadamard(64, 64))), 1e-6) << name;
  }
}

std::int64_t held_bytes(const std::string& recipe, std::int64_t rows, std::int64_t in, std::int64_t out) {
  Linear layer = make(in, out, recipe);
  Tensor x = torch::randn({rows, in}).requires_grad_();
  layer->forward(x);  // quantizes the weight once
  const testing::AllocationScope scope;
  const Tensor y = layer->forward(x);
  return scope.live_bytes() - static_cast<std::int64_t>(y.nbytes());
}

// Nothing in floating point but the row scales: 4 bits, in rms4 5, in int7 8 bits and the padding of rows, per element.
TEST(LinearMemory, AutogradHoldsPackedCodes) {
  const std::int64_t rows = 128, in = 256, out = 64;
  EXPECT_EQ(held_bytes("w4a8", rows, in, out), rows * in / 2 + rows * 4);
  EXPECT_EQ(held_bytes("rms4", rows, in, out), rows * in / 2 + rows * in / 8 + rows * 4);
  EXPECT_EQ(held_bytes("int7", rows, in, out), rows * kernels::igemm_a_stride(in) + rows * 4);
}

TEST(LinearDropIn, ParametersAndArchiveAreTorchs) {
  torch::manual_seed(7);
  torch::nn::Linear theirs(48, 20);
  torch::manual_seed(7);
  Linear ours(48, 20);
  EXPECT_TRUE(torch::equal(theirs->weight, ours->weight));
  EXPECT_TRUE(torch::equal(theirs->bias, ours->bias));
  std::stringstream archive;
  torch::nn::Linear other(48, 20);
  torch::save(other, archive);
  torch::load(ours, archive);
  EXPECT_TRUE(torch::equal(other->weight, ours->weight));
  // The cached codes follow the loaded weight.
  const Tensor x = torch::randn({5, 48});
  EXPECT_LT(relative(ours->forward(x), other->forward(x)), 0.25);
  std::stringstream back;
  torch::save(ours, back);
  torch::nn::Linear again(48, 20);
  torch::load(again, back);
  EXPECT_TRUE(torch::equal(again->weight, ours->weight));
}

TEST(LinearDropIn, Fp32RecipeIsTorchsLinear) {
  Linear ours = make(96, 40, "fp32");
  const Tensor x = torch::randn({31, 96}), dy = torch::randn({31, 40});
  Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
  ours->forward(a).backward(dy);
  const Tensor w = ours->weight.detach().clone().requires_grad_(), bias = ours->bias.detach().clone().requires_grad_();
  torch::nn::functional::linear(b, w, bias).backward(dy);
  // Two orders of fp32 summation over K terms differ by eps * sqrt(K) relative to the norm.
  EXPECT_LE(relative(a.grad(), b.grad()), 6e-8 * std::sqrt(40.0) * 4);
  EXPECT_LE(relative(ours->weight.grad(), w.grad()), 6e-8 * std::sqrt(31.0) * 4);
  EXPECT_LE(relative(ours->bias.grad(), bias.grad()), 6e-8 * std::sqrt(31.0) * 4);
}

TEST(LinearDropIn, FirstLayerOfASequentialTrains) {
  torch::manual_seed(2);
  torch::nn::Sequential net(Linear(16, 64), torch::nn::GELU(), Linear(64, 64), torch::nn::GELU(),
                            Linear(LinearOptions(64, 1).recipe(Recipe::named("fp32"))));
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-2));
  const Tensor x = torch::randn({256, 16}), target = x.narrow(1, 0, 4).sin().sum(1, true);  // x needs no gradient
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    const Tensor loss = torch::mse_loss(net->forward(x), target);
    loss.backward();
    optimizer.step();
    (step == 0 ? first : last) = loss.item<double>();
  }
  EXPECT_LT(last, first / 4);
}

TEST(LinearDropIn, FrozenWeightsAndAutogradGrad) {
  Linear layer = make(32, 24, "rms4");
  Tensor x = torch::randn({10, 32}).requires_grad_();
  const auto all = torch::autograd::grad({layer->forward_at(x, {1, 1, 1}).sum()}, {x, layer->weight, layer->bias});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_FALSE(layer->weight.grad().defined());
  layer->weight.requires_grad_(false);
  layer->bias.requires_grad_(false);
  layer->forward_at(x, {1, 1, 1}).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), all[0]));
  EXPECT_FALSE(layer->weight.grad().defined());
  EXPECT_FALSE(layer->forward(torch::randn({10, 32})).requires_grad());
}

TEST(LinearDropIn, CloneIsIndependent) {
  Linear layer = make(32, 16, "w4a8");
  const auto copy = std::dynamic_pointer_cast<LinearImpl>(layer->clone());
  const Tensor x = torch::randn({4, 32}), before = copy->forward(x);
  {
    const torch::NoGradGuard no_grad;
    layer->weight.mul_(-1);
  }
  EXPECT_TRUE(torch::equal(copy->forward(x), before));
  EXPECT_FALSE(torch::equal(layer->forward(x), before));
}

TEST(LinearDropIn, ProductsCanBeReplacedOneByOne) {
  Recipe recipe = Recipe::named("rms4");
  recipe.override_product("dw", "fp32");
  recipe.override_product("dx", "bf16");
  EXPECT_EQ(recipe.describe(), "rms4, dx bf16, dw fp32");
  torch::manual_seed(3);
  Linear layer(LinearOptions(64, 48).recipe(recipe));
  Tensor x = torch::randn({40, 64}).requires_grad_();
  const Tensor dy = torch::randn({40, 48});
  layer->forward(x).backward(dy);
  EXPECT_LE(relative(layer->weight.grad(), dy.t().matmul(x.detach())), 1e-6);
  EXPECT_LE(relative(x.grad(), dy.matmul(layer->weight)), 4e-3);
  EXPECT_THROW(recipe.override_product("dw", "rms4"), Error);
  EXPECT_THROW(recipe.override_product("dy", "fp32"), Error);
}

template <typename F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

// Rotated products in one recipe need not be of one kind.
TEST(LinearDropIn, RotatedProductsMix) {
  for (const auto& [forward, dx, dw] : {std::tuple{Product::kW4a8, Product::kInt7, Product::kInt7},
                                        {Product::kRms4, Product::kInt7, Product::kW4a8},
                                        {Product::kInt7, Product::kRms4, Product::kInt8},
                                        {Product::kBf16, Product::kW4a8, Product::kInt7}}) {
    torch::manual_seed(3);
    Linear layer(LinearOptions(128, 96).recipe({forward, dx, dw, 0, quant::Keep::kInt4}));
    Tensor x = torch::randn({80, 128}).requires_grad_();
    const Tensor dy = torch::randn({80, 96});
    layer->forward(x).backward(dy);
    // The coarsest format bounds all: INT4 weights or activations, 0.1135 each.
    EXPECT_LE(relative(x.grad(), dy.matmul(layer->weight)), 0.19) << layer->options.recipe().describe();
    EXPECT_LE(relative(layer->weight.grad(), dy.t().matmul(x)), 0.19) << layer->options.recipe().describe();
  }
}

TEST(LinearErrors, AreSentencesWithTheValue) {
  using ::testing::Test;
  EXPECT_NE(message_of([] { Linear(LinearOptions(40, 8)); }).find("width is 40"), std::string::npos);
  EXPECT_NE(message_of([] { Linear(LinearOptions(0, 8)); }).find("0 input"), std::string::npos);
  EXPECT_NE(message_of([] { Recipe::named("fp4"); }).find("'fp4'"), std::string::npos);
  Linear layer = make(32, 16, "w4a8");
  EXPECT_NE(message_of([&] { layer->forward(torch::randn({2, 31})); }).find("[2, 31]"), std::string::npos);
  EXPECT_NE(message_of([&] {
              layer->forward(torch::randn({2, 32}, torch::kDouble));
            }).find("Double"),
            std::string::npos);
  const Tensor y = layer->forward(torch::randn({2, 32}));
  {
    const torch::NoGradGuard no_grad;
    layer->weight.add_(1);
  }
  layer->forward(torch::randn({2, 32}));
  EXPECT_NE(message_of([&] { y.sum().backward(); }).find("changed between"), std::string::npos);
  Tensor x = torch::randn({2, 32}).requires_grad_();
  EXPECT_NE(message_of([&] {
              torch::autograd::grad({layer->forward(x).sum()}, {x}, {}, std::nullopt, /*create_graph=*/true);
            }).find("second derivative"),
            std::string::npos);
}

TEST(LinearNonFinite, PoisonsItsRowOnly) {
  Linear layer = make(32, 16, "w4a8");
  Tensor x = torch::randn({3, 32});
  x[1][5] = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = layer->forward(x);
  EXPECT_TRUE(y[0].isfinite().all().item<bool>());
  EXPECT_TRUE(y[1].isnan().all().item<bool>());
  EXPECT_TRUE(y[2].isfinite().all().item<bool>());
}

}  // namespace
}  // namespace tessera::nn
