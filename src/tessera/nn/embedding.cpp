#include "tessera/nn/embedding.h"

#include "tessera/base/part_timers.h"
#include "tessera/kernels/embedding/embedding.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct EmbeddingFunction : torch::autograd::Function<EmbeddingFunction> {
  static Tensor forward(AutogradContext* ctx, const Tensor& ids, const Tensor& table) {
    const ScopedPart part(Part::kEmbedding);
    ctx->save_for_backward({ids});
    ctx->saved_data["rows"] = table.size(0);
    std::vector<std::int64_t> shape = ids.sizes().vec();
    shape.push_back(table.size(1));
    return table.index_select(0, ids.reshape({-1})).view(shape);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    TORCH_CHECK_NOT_IMPLEMENTED(!at::GradMode::is_enabled(), "tessera::nn::embedding has no second derivative");
    const ScopedPart part(Part::kEmbedding);
    quant::use_torch_threads();
    const Tensor ids = ctx->get_saved_variables()[0].contiguous(), dy = grads[0].contiguous();
    const std::int64_t width = dy.size(-1);
    Tensor d_table = torch::zeros({ctx->saved_data["rows"].toInt(), width}, torch::kFloat);
    kernels::embedding_backward(ids.const_data_ptr<std::int64_t>(), ids.numel(), dy.const_data_ptr<float>(), width,
                                d_table.mutable_data_ptr<float>());
    return {Tensor(), d_table};
  }
};

}  // namespace

Tensor embedding(const Tensor& ids, const Tensor& table) {
  TORCH_CHECK_TYPE(ids.scalar_type() == torch::kLong, "token ids are ", ids.scalar_type(), ", expected int64");
  if (ids.numel() > 0) {
    const auto [low, high] = at::aminmax(ids);
    TORCH_CHECK_VALUE(low.item<std::int64_t>() >= 0 && high.item<std::int64_t>() < table.size(0), "token ids span ",
                      low.item<std::int64_t>(), "..", high.item<std::int64_t>(), ", the vocabulary has ",
                      table.size(0));
  }
  return EmbeddingFunction::apply(ids, table);
}

}  // namespace tessera::nn
