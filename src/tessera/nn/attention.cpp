#include "tessera/nn/attention.h"

#include <cmath>

#include "tessera/base/part_timers.h"
#include "tessera/kernels/attention/attention.h"
#include "tessera/quant/codes.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::AttentionShape shape_of(const Tensor& qkv, std::int64_t heads) {
  return {qkv.size(0), qkv.size(1), heads, qkv.size(2) / 3 / heads};
}

float scale_of(const kernels::AttentionShape& shape) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_size)));
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& qkv_in, std::int64_t heads) {
    const ScopedPart part(Part::kAttention);
    quant::use_torch_threads();
    const Tensor qkv = qkv_in.contiguous();
    const kernels::AttentionShape shape = shape_of(qkv, heads);
    const auto options = qkv.options().requires_grad(false);
    Tensor o = torch::empty({shape.batch, shape.tokens, shape.o_stride()}, options);
    Tensor lse = torch::empty({shape.batch, heads, shape.tokens}, torch::kFloat);
    kernels::AttentionParams params;
    params.shape = shape;
    params.type = quant::float_type(qkv.scalar_type());
    params.scale = scale_of(shape);
    params.qkv = qkv.const_data_ptr();
    params.o = o.mutable_data_ptr();
    params.lse = lse.mutable_data_ptr<float>();
    kernels::attention(params);
    ctx->save_for_backward({qkv, o, lse});
    ctx->saved_data["heads"] = heads;
    return o;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::causal_attention has no second derivative");
    const ScopedPart part(Part::kAttention);
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &qkv = saved[0], &o = saved[1], &lse = saved[2];
    const Tensor d_o = grads[0].to(qkv.scalar_type()).contiguous();
    Tensor dqkv = torch::empty_like(qkv);
    kernels::AttentionBackwardParams params;
    params.shape = shape_of(qkv, ctx->saved_data["heads"].toInt());
    params.type = quant::float_type(qkv.scalar_type());
    params.scale = scale_of(params.shape);
    params.qkv = qkv.const_data_ptr();
    params.o = o.const_data_ptr();
    params.lse = lse.const_data_ptr<float>();
    params.d_o = d_o.const_data_ptr();
    params.dqkv = dqkv.mutable_data_ptr();
    kernels::attention_backward(params);
    return {dqkv, Tensor()};
  }
};

}  // namespace

bool causal_attention_supported(const Tensor& qkv, std::int64_t heads) {
  if (qkv.dim() != 3 || heads < 1 || qkv.size(2) % (3 * heads) != 0) return false;
  if (qkv.scalar_type() != torch::kFloat && qkv.scalar_type() != torch::kBFloat16) return false;
  return kernels::attention_supported(shape_of(qkv, heads));
}

Tensor causal_attention(const Tensor& qkv, std::int64_t heads) {
  TORCH_CHECK_VALUE(causal_attention_supported(qkv, heads), "causal_attention with ", heads, " heads got ",
                    qkv.scalar_type(), " of shape ", qkv.sizes(),
                    ", expected float32 or bfloat16 [batch, tokens, 3 * heads * a multiple of 16 up to 128]");
  return AttentionFunction::apply(qkv, heads);
}

}  // namespace tessera::nn
