// Two spirals, told apart by a small network whose hidden layers multiply 4-bit integers in training: a plain LibTorch
// program in which tessera::nn::Linear stands where torch::nn::Linear stood.
#include <torch/torch.h>

#include <cstdio>

#include "tessera/nn/linear.h"

namespace {

constexpr std::int64_t kFeatures = 64, kHidden = 128, kPoints = 1000, kSteps = 100;

struct Spirals {
  torch::Tensor features;  // [kPoints, kFeatures]
  torch::Tensor labels;    // [kPoints] 0 or 1
};

// Random Fourier features of the points, because a network on two coordinates would have nothing to multiply.
Spirals make_spirals() {
  const auto labels = torch::arange(kPoints).remainder(2);
  const auto turn = 3 * M_PI * torch::rand(kPoints).sqrt();
  const auto angle = turn + M_PI * labels;
  const auto points =
      torch::stack({turn * angle.cos(), turn * angle.sin()}, 1) / 10 + 0.01 * torch::randn({kPoints, 2});
  const auto phase = points.matmul(4 * torch::randn({2, kFeatures / 2}));
  return {torch::cat({phase.sin(), phase.cos()}, 1), labels};
}

tessera::nn::Linear int4_linear(std::int64_t in, std::int64_t out, const char* name) {
  const auto recipe = tessera::quant::Recipe::named("w4a8");
  return tessera::nn::Linear(tessera::nn::LinearOptions(in, out).recipe(recipe).name(name));
}

}  // namespace

int main() {
  torch::manual_seed(1);
  const Spirals data = make_spirals();
  torch::nn::Sequential network(int4_linear(kFeatures, kHidden, "first"), torch::nn::GELU(),
                                int4_linear(kHidden, kHidden, "second"), torch::nn::GELU(),
                                torch::nn::Linear(kHidden, 2));
  torch::optim::AdamW optimizer(network->parameters(), torch::optim::AdamWOptions(3e-3));
  double accuracy = 0;
  for (std::int64_t step = 0; step <= kSteps; ++step) {
    const auto logits = network->forward(data.features);
    const auto loss = torch::nn::functional::cross_entropy(logits, data.labels);
    accuracy = logits.argmax(1).eq(data.labels).to(torch::kFloat64).mean().item<double>();
    if (step % 20 == 0) {
      std::printf("step %3lld  loss %.4f  accuracy %.3f\n", static_cast<long long>(step), loss.item<double>(),
                  accuracy);
    }
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  return accuracy > 0.95 ? 0 : 1;
}
