#include "tessera/nn/local_runner.h"

#include <torch/csrc/autograd/autograd.h>

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RecomputeState : torch::CustomClassHolder {
  Unit* unit = nullptr;
  UnitContext context;
  TensorList inputs;  // detached
};

bool needs_gradient(const Tensor& input) { return input.defined() && input.requires_grad(); }

// One autograd node per unit: forward keeps the inputs only; backward runs the unit again, with the same noise, and
// differentiates that inner graph, which adds the parameters' gradients where plain autograd would.
struct RecomputeFunction : torch::autograd::Function<RecomputeFunction> {
  // `anchor` requires grad, for a unit whose inputs do not (token ids). `differentiable` are those of the state's
  // inputs that require grad: autograd takes no undefined tensors.
  static variable_list forward(AutogradContext* ctx, const Tensor& /*anchor*/, at::TensorList /*differentiable*/,
                               const c10::intrusive_ptr<RecomputeState>& state) {
    ctx->saved_data["state"] = c10::IValue::make_capsule(state);
    return state->unit->forward(state->inputs, state->context);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto state = c10::static_intrusive_pointer_cast<RecomputeState>(ctx->saved_data["state"].toCapsule());
    TensorList outputs;
    {
      const torch::AutoGradMode record(true);
      outputs = state->unit->forward(state->inputs, state->context);
    }
    TensorList roots, root_grads;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      roots.push_back(outputs[i]);
      root_grads.push_back(grads[i]);
    }
    torch::autograd::backward(roots, root_grads);
    variable_list result{Tensor()};
    for (const Tensor& input : state->inputs)
      if (needs_gradient(input)) result.push_back(input.grad());
    result.emplace_back();
    state->inputs.clear();
    return result;
  }
};

}  // namespace

TensorList LocalRunner::run(Unit& unit, const TensorList& inputs, const UnitContext& context) {
  if (!recompute_ || !unit.worth_recomputing() || !at::GradMode::is_enabled()) return unit.forward(inputs, context);
  auto state = c10::make_intrusive<RecomputeState>();
  state->unit = &unit;
  state->context = context;
  TensorList differentiable;
  for (const Tensor& input : inputs) {
    if (needs_gradient(input)) {
      differentiable.push_back(input);
      state->inputs.push_back(input.detach().requires_grad_());
    } else {
      state->inputs.push_back(input);
    }
  }
  const Tensor anchor = torch::empty({0}, torch::requires_grad());
  return RecomputeFunction::apply(anchor, at::TensorList(differentiable), state);
}

}  // namespace tessera::nn
