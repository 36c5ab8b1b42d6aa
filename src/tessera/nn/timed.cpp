#include "tessera/nn/timed.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BeginFunction : torch::autograd::Function<BeginFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, std::int64_t part) {
    ctx->saved_data["part"] = part;
    return x;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    begin_part(static_cast<Part>(ctx->saved_data["part"].toInt()));
    return {grads[0], Tensor()};
  }
};

struct EndFunction : torch::autograd::Function<EndFunction> {
  static Tensor forward(AutogradContext* /*ctx*/, const Tensor& x) { return x; }
  static variable_list backward(AutogradContext* /*ctx*/, variable_list grads) {
    end_part();
    return grads;
  }
};

}  // namespace

Tensor begin_part_in_backward(const Tensor& x, Part part) {
  return BeginFunction::apply(x, static_cast<std::int64_t>(part));
}

Tensor end_part_in_backward(const Tensor& x) { return EndFunction::apply(x); }

}  // namespace tessera::nn
