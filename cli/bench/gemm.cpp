#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "bench/benches.h"
#include "bench/peak.h"
#include "tessera/base/aligned_buffer.h"
#include "tessera/base/int4.h"
#include "tessera/kernels/igemm/igemm.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::cli {
namespace {

// Codes of the product that a recipe multiplies.
struct Format {
  const char* name;
  std::int32_t left_limit, right_limit;
};
constexpr Format kFormats[] = {
    {"int4", kSplitMax, kInt4Max},  // bit-split activations, INT4 weights: the default recipe
    {"int7", kInt7Max, kInt7Max},
};

at::Tensor random_codes(std::int64_t rows, std::int64_t cols, std::int64_t limit) {
  return at::randint(-limit, limit + 1, {rows, cols}, at::kChar);
}

// Operands of igemm for one shape and format, ready to multiply.
class OurProduct {
 public:
  OurProduct(const Shape& shape, const Format& format)
      : shape_(shape),
        format_(format),
        panels_(kernels::igemm_packed_b_bytes(shape.columns, shape.depth)),
        row_scales_(at::rand({shape.rows})),
        column_scales_(at::rand({shape.columns})),
        out_(at::empty({shape.rows, shape.columns}, at::kBFloat16)) {
    const std::int64_t stride = kernels::igemm_a_stride(shape.depth);
    left_codes_ = at::zeros({shape.rows, stride}, at::kChar);
    left_codes_.narrow(1, 0, shape.depth).copy_(random_codes(shape.rows, shape.depth, format.left_limit));
    const at::Tensor right = random_codes(shape.columns, shape.depth, format.right_limit);
    kernels::igemm_pack_b({.codes = right.const_data_ptr<std::int8_t>(), .row_bytes = shape.depth}, packed());
  }

  void multiply() {
    kernels::IgemmParams params;
    params.m = shape_.rows;
    params.a = left_codes_.const_data_ptr<std::int8_t>();
    params.a_stride = left_codes_.size(1);
    params.a_limit = format_.left_limit;
    params.b = packed();
    params.out = {out_.data_ptr(), kernels::FloatType::kBf16, shape_.columns};
    params.row_scale = row_scales_.const_data_ptr<float>();
    params.col_scale = column_scales_.const_data_ptr<float>();
    kernels::igemm(params);
  }

 private:
  kernels::PackedB packed() { return {panels_.data(), shape_.columns, shape_.depth, format_.right_limit}; }

  Shape shape_;
  Format format_;
  at::Tensor left_codes_;
  AlignedBuffer<std::int8_t> panels_;
  at::Tensor row_scales_, column_scales_, out_;
};

// A library product, with the weight as [N, K] and as [K, N]: the faster of both counts.
struct Peer {
  std::string name;
  std::vector<Contender> layouts;
};

Peer float_peer(const std::string& name, const Shape& shape, at::ScalarType dtype) {
  const at::Tensor x = at::randn({shape.rows, shape.depth}).to(dtype);
  const at::Tensor w = at::randn({shape.columns, shape.depth}).to(dtype), w_t = w.t().contiguous();
  at::Tensor out = at::empty({shape.rows, shape.columns}, dtype);
  return {name,
          {{name, [=]() mutable { at::mm_out(out, x, w.t()); }}, {name, [=]() mutable { at::mm_out(out, x, w_t); }}}};
}

Peer int8_peer(const std::string& name, const Shape& shape) {
  const at::Tensor x = random_codes(shape.rows, shape.depth, 127), w = random_codes(shape.columns, shape.depth, 127);
  const at::Tensor w_t = w.t().contiguous();
  at::Tensor out = at::empty({shape.rows, shape.columns}, at::kInt);
  return {name, {{name, [=]() mutable { at::_int_mm_out(out, x, w.t()); }}, {name, [=]() mutable {
                                                                               at::_int_mm_out(out, x, w_t);
                                                                             }}}};
}

std::vector<Peer> make_peers(const Shape& shape) {
  std::vector<Peer> peers = {float_peer("torch fp32", shape, at::kFloat),
                             float_peer("torch bf16", shape, at::kBFloat16), int8_peer("torch int8", shape)};
  if (const std::string instruction = peak_instruction(enabled_isa()); !instruction.empty()) {
    const std::string name = instruction + " peak";
    const std::int64_t macs = shape.rows * shape.depth * shape.columns;
    peers.push_back({name, {{name, [macs] { run_at_peak(enabled_isa(), macs); }}}});
  }
  return peers;
}

}  // namespace

std::string Shape::name() const { return fmt::format("{}x{}x{}", rows, depth, columns); }

std::int64_t use_threads(std::int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  quant::use_torch_threads();
  return at::get_num_threads();
}

std::vector<BenchRow> bench_gemm(const BenchOptions& options) {
  const at::NoGradGuard no_grad;
  at::manual_seed(1);
  std::vector<BenchRow> rows;
  for (const Shape& shape : options.shapes) {
    std::vector<OurProduct> products;
    for (const Format& format : kFormats) products.emplace_back(shape, format);
    const std::vector<Peer> peers = make_peers(shape);
    std::vector<Contender> contenders;
    for (std::size_t i = 0; i < products.size(); ++i)
      contenders.push_back({kFormats[i].name, [&product = products[i]] { product.multiply(); }});
    for (const Peer& peer : peers) contenders.insert(contenders.end(), peer.layouts.begin(), peer.layouts.end());
    const std::vector<double> medians = interleaved_medians(contenders, options.timing);
    std::size_t next = products.size();
    for (const Peer& peer : peers) {
      double best = medians[next];
      for (std::size_t i = 1; i < peer.layouts.size(); ++i) best = std::min(best, medians[next + i]);
      next += peer.layouts.size();
      for (std::size_t i = 0; i < products.size(); ++i)
        rows.push_back({"gemm", shape.name(), kFormats[i].name, peer.name, medians[i], best, shape.operations()});
    }
  }
  return rows;
}

}  // namespace tessera::cli
