#include "tessera/nn/head_loss.h"

#include <algorithm>

#include "tessera/base/math.h"
#include "tessera/base/part_timers.h"
#include "tessera/kernels/cross_entropy/cross_entropy.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct HeadState : torch::CustomClassHolder {
  LinearCall call;
  std::int64_t count = 0;  // tokens with a target
  bool want_dx = false, want_dw = false;
};

// Loss of one chunk, summed over its tokens in order; its logits become their gradient in place when `gradient`.
double chunk_loss(const Tensor& logits, const Tensor& targets, bool gradient, double gradient_scale) {
  Tensor loss = torch::empty({logits.size(0)}, torch::kFloat);
  kernels::CrossEntropyParams params;
  params.rows = logits.size(0);
  params.cols = logits.size(1);
  params.logits = logits.mutable_data_ptr<float>();
  params.stride = logits.stride(0);
  params.targets = targets.const_data_ptr<std::int64_t>();
  params.loss = loss.mutable_data_ptr<float>();
  params.gradient = gradient;
  params.gradient_scale = static_cast<float>(gradient_scale);
  kernels::cross_entropy(params);
  double sum = 0;
  for (std::int64_t i = 0; i < params.rows; ++i) sum += params.loss[i];
  return sum;
}

struct HeadLossFunction : torch::autograd::Function<HeadLossFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& /*weight*/, const Tensor& targets,
                        const c10::intrusive_ptr<HeadState>& state) {
    const ScopedPart part(Part::kHeadLoss);
    quant::use_torch_threads();
    const std::int64_t tokens = hidden.size(0), step = head_chunk_tokens(state->call.out_features);
    const bool gradient = state->want_dx || state->want_dw;
    Tensor d_hidden = state->want_dx ? torch::empty_like(hidden) : Tensor(), dw;
    double sum = 0;
    // One buffer for all chunks; rows start on cache lines, so that products may stream them.
    const std::int64_t vocabulary = state->call.out_features;
    const Tensor buffer = torch::empty({std::min(step, tokens), round_up(vocabulary, std::int64_t{16})}, torch::kFloat)
                              .narrow(1, 0, vocabulary);
    for (std::int64_t begin = 0; begin < tokens; begin += step) {
      const std::int64_t size = std::min(step, tokens - begin);
      LinearCall call = state->call;
      call.row_offset += begin;
      SavedActivations saved;
      const Tensor logits = linear_forward(call, hidden.narrow(0, begin, size), {}, state->want_dx, state->want_dw,
                                           &saved, buffer.narrow(0, 0, size));
      sum += chunk_loss(logits, targets.narrow(0, begin, size), gradient, 1.0 / static_cast<double>(state->count));
      if (!gradient) continue;
      const LinearGradients gradients = linear_backward(
          call, saved, logits,
          {.dx = state->want_dx, .dx_dtype = hidden.scalar_type(), .dw = state->want_dw ? &dw : nullptr});
      if (state->want_dx) d_hidden.narrow(0, begin, size).copy_(gradients.dx);
    }
    if (state->want_dw) dw = finish_weight_gradient(state->call, dw);
    ctx->save_for_backward({d_hidden, dw});
    return torch::tensor(static_cast<float>(sum / static_cast<double>(state->count)));
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::head_loss has no second derivative");
    const ScopedPart part(Part::kHeadLoss);
    const variable_list saved = ctx->get_saved_variables();
    // The usual factor is 1: no second copy of a gradient as large as the weight.
    const bool one = grads[0].item<float>() == 1.0f;
    const auto scaled = [&](const Tensor& gradient) {
      return gradient.defined() && !one ? gradient * grads[0] : gradient;
    };
    return {scaled(saved[0]), scaled(saved[1]), Tensor(), Tensor()};
  }
};

}  // namespace

std::int64_t head_chunk_tokens(std::int64_t vocabulary) {
  return std::max<std::int64_t>(kHeadChunkElements / vocabulary, 16);
}

Tensor head_loss(const Tensor& hidden, const Tensor& weight, const Tensor& targets_in, const LinearCall& call) {
  const Tensor targets = targets_in.contiguous();
  TORCH_CHECK_VALUE(targets.dim() == 1 && targets.size(0) == hidden.size(0) && targets.scalar_type() == torch::kLong,
                    "targets are ", targets.scalar_type(), " ", targets.sizes(), ", expected int64 [", hidden.size(0),
                    "]");
  auto state = c10::make_intrusive<HeadState>();
  state->call = call;
  state->count = targets.ge(0).sum().item<std::int64_t>();
  TORCH_CHECK_VALUE(state->count > 0, "none of the ", targets.size(0),
                    " tokens has a target, so there is no mean loss");
  TORCH_CHECK_VALUE(targets.max().item<std::int64_t>() < call.out_features, "target ",
                    targets.max().item<std::int64_t>(), " is outside the vocabulary of ", call.out_features);
  TORCH_CHECK_VALUE(targets.min().item<std::int64_t>() >= kernels::kIgnoreTarget, "target ",
                    targets.min().item<std::int64_t>(), " is negative; only -1 means no target");
  state->want_dx = at::GradMode::is_enabled() && hidden.requires_grad();
  state->want_dw = at::GradMode::is_enabled() && weight.requires_grad();
  return HeadLossFunction::apply(hidden, weight, targets, state);
}

}  // namespace tessera::nn
