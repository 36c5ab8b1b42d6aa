#include "tessera/nn/linear.h"

#include <torch/nn/modules/linear.h>

#include "bench/benches.h"

namespace tessera::cli {
namespace {

struct LinearPeer {
  std::string name;
  torch::ScalarType dtype;
};
const LinearPeer kLinearPeers[] = {{"torch fp32", torch::kFloat32}, {"torch bf16", torch::kBFloat16}};

// Forward and backward of one layer, gradients of input, weight and bias made anew.
template <typename Layer>
Contender training_pass(const std::string& name, const Shape& shape, torch::ScalarType dtype, Layer layer) {
  const torch::Tensor x = torch::randn({shape.rows, shape.depth}).to(dtype).requires_grad_();
  const torch::Tensor dy = torch::randn({shape.rows, shape.columns}).to(dtype);
  return {name, [=]() mutable {
            layer->weight.unsafeGetTensorImpl()->bump_version();  // as an optimizer step does: codes are made anew
            layer->forward(x).backward(dy);
            x.mutable_grad().reset();
            layer->zero_grad();
          }};
}

}  // namespace

std::vector<BenchRow> bench_linear(const BenchOptions& options) {
  torch::manual_seed(1);
  std::vector<BenchRow> rows;
  for (const Shape& shape : options.shapes)
    for (const LinearPeer& peer : kLinearPeers) {
      std::vector<Contender> contenders;
      torch::nn::Linear theirs(shape.depth, shape.columns);
      theirs->to(peer.dtype);
      contenders.push_back(training_pass(peer.name, shape, peer.dtype, theirs));
      for (const std::string& recipe : options.recipes) {
        nn::LinearOptions layer(shape.depth, shape.columns);
        layer.recipe(quant::Recipe::named(recipe));
        contenders.push_back(training_pass(recipe, shape, peer.dtype, nn::Linear(layer)));
      }
      const std::vector<double> medians = interleaved_medians(contenders, options.timing);
      for (std::size_t i = 1; i < contenders.size(); ++i)
        rows.push_back({"linear", shape.name(), contenders[i].name, peer.name, medians[i], medians[0],
                        3 * shape.operations()});  // forward, dX, dW
    }
  return rows;
}

}  // namespace tessera::cli
