// Each row is read from memory once and passes two or three times through L1. The backward pass adds a row's share of
// dweight and dbias to its block's sums while it sums the row.
#include "tessera/kernels/layer_norm/layer_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/layer_norm/layer_norm.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/simd/layer_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

// y of `n` columns, a multiple of kLanes.
template <typename T>
HWY_INLINE void normalize(const float* x, const float* weight, const float* bias, std::size_t n, F32 mean, F32 rstd,
                          T* y) {
  for (std::size_t c = 0; c < n; c += kLanes)
    store_row(normalized(x + c, weight ? weight + c : nullptr, bias ? bias + c : nullptr, mean, rstd), y + c);
}

template <typename T>
void layer_norm_typed(const LayerNormParams& p, std::size_t begin, std::size_t end) {
  const F32Tag d;
  const auto cols = static_cast<std::size_t>(p.cols);
  for (std::size_t r = begin; r < end; ++r) {
    const float* x = p.x + r * cols;
    T* y = static_cast<T*>(p.y.data) + r * static_cast<std::size_t>(p.y.stride);
    const auto [mean, rstd] = row_moments(x, cols, p.eps);
    p.mean[r] = mean;
    p.rstd[r] = rstd;
    const F32 center = hn::Set(d, mean), inverse = hn::Set(d, rstd);
    const std::size_t whole = cols / kLanes * kLanes, rest = cols - whole;
    normalize(x, p.weight, p.bias, whole, center, inverse, y);
    if (rest == 0) continue;
    float tail_x[kLanes], tail_weight[kLanes], tail_bias[kLanes];
    T tail_y[kLanes];
    copy_padded(x + whole, rest, tail_x, kLanes);
    if (p.weight) copy_padded(p.weight + whole, rest, tail_weight, kLanes);
    if (p.bias) copy_padded(p.bias + whole, rest, tail_bias, kLanes);
    normalize(tail_x, p.weight ? tail_weight : nullptr, p.bias ? tail_bias : nullptr, kLanes, center, inverse, tail_y);
    copy_padded(tail_y, rest, y + whole, rest);
  }
}

// The operands of one row's backward pass, from some column on.
template <typename T>
struct Columns {
  const float* x;
  const T* dy;
  const float* weight;
  float *dweight, *dbias, *dx;

  HWY_INLINE Columns at(std::size_t c) const {
    return {x + c, dy + c, weight ? weight + c : nullptr, dweight + c, dbias + c, dx ? dx + c : nullptr};
  }
};

// Columns of a ragged end, filled up to a group.
template <typename T>
class TailColumns {
 public:
  HWY_INLINE TailColumns(const Columns<T>& from, std::size_t n) : from_(from), n_(n) {
    copy_padded(from.x, n, x_, kGroup);
    copy_padded(from.dy, n, dy_, kGroup);
    if (from.weight) copy_padded(from.weight, n, weight_, kGroup);
    copy_padded(from.dweight, n, dweight_, kGroup);
    copy_padded(from.dbias, n, dbias_, kGroup);
  }
  HWY_INLINE Columns<T> columns() {
    return {x_, dy_, from_.weight ? weight_ : nullptr, dweight_, dbias_, from_.dx ? dx_ : nullptr};
  }
  HWY_INLINE void store_sums() const {
    copy_padded(dweight_, n_, from_.dweight, n_);
    copy_padded(dbias_, n_, from_.dbias, n_);
  }
  HWY_INLINE void store_dx() const { copy_padded(dx_, n_, from_.dx, n_); }

 private:
  Columns<T> from_;
  std::size_t n_;
  float x_[kGroup], weight_[kGroup], dweight_[kGroup], dbias_[kGroup], dx_[kGroup];
  T dy_[kGroup];
};

template <typename T>
HWY_INLINE F32 load_g(const Columns<T>& at, std::size_t i) {
  const F32 dy = load_row(at.dy + i);
  return at.weight ? hn::Mul(dy, load_row(at.weight + i)) : dy;
}

HWY_INLINE F32 load_xhat(const float* x, F32 mean, F32 rstd) { return hn::Mul(hn::Sub(load_row(x), mean), rstd); }

// Add the first `n` elements of a group to the sums of its row and of its block.
template <typename T>
HWY_INLINE void add_group(const Columns<T>& at, std::size_t n, F32 mean, F32 rstd, Sum16& sum_g, Sum16& sum_gx) {
  for (std::size_t j = 0; j < kGroupVectors; ++j) {
    const std::size_t i = j * kLanes;
    const F32 dy = load_row(at.dy + i), g = load_g(at, i), xhat = load_xhat(at.x + i, mean, rstd);
    sum_g.add(j, first_of_group(g, j, n));
    sum_gx.add(j, first_of_group(hn::Mul(g, xhat), j, n));
    store_row(hn::Add(load_row(at.dweight + i), hn::Mul(dy, xhat)), at.dweight + i);
    store_row(hn::Add(load_row(at.dbias + i), dy), at.dbias + i);
  }
}

// dx of `n` columns, a multiple of kLanes.
template <typename T>
HWY_INLINE void write_dx(const Columns<T>& at, std::size_t n, F32 mean, F32 rstd, F32 mean_g, F32 mean_gx) {
  for (std::size_t i = 0; i < n; i += kLanes) {
    const F32 xhat = load_xhat(at.x + i, mean, rstd);
    const F32 inner = hn::Sub(hn::Sub(load_g(at, i), mean_g), hn::Mul(xhat, mean_gx));
    store_row(hn::Mul(rstd, inner), at.dx + i);
  }
}

template <typename T>
HWY_INLINE void backward_row(const Columns<T>& row, std::size_t cols, float mean, float rstd) {
  const F32Tag d;
  const F32 mean_v = hn::Set(d, mean), rstd_v = hn::Set(d, rstd);
  const std::size_t whole = cols / kGroup * kGroup, rest = cols - whole;
  Sum16 sum_g, sum_gx;
  for (std::size_t c = 0; c < whole; c += kGroup) add_group(row.at(c), kGroup, mean_v, rstd_v, sum_g, sum_gx);
  if (rest != 0) {
    TailColumns<T> tail(row.at(whole), rest);
    add_group(tail.columns(), rest, mean_v, rstd_v, sum_g, sum_gx);
    tail.store_sums();
  }
  if (!row.dx) return;
  const auto n = static_cast<float>(cols);
  const F32 mean_g = hn::Set(d, sum_g.total() / n), mean_gx = hn::Set(d, sum_gx.total() / n);
  write_dx(row, whole, mean_v, rstd_v, mean_g, mean_gx);
  if (rest != 0) {
    TailColumns<T> tail(row.at(whole), rest);
    write_dx(tail.columns(), kGroup, mean_v, rstd_v, mean_g, mean_gx);
    tail.store_dx();
  }
}

template <typename T>
void backward_typed(const LayerNormBackwardParams& p, float* workspace, std::int64_t begin, std::int64_t end) {
  const auto cols = static_cast<std::size_t>(p.cols);
  for (std::int64_t block = begin; block < end; ++block) {
    float* sums = workspace + static_cast<std::size_t>(block) * 2 * cols;
    std::fill_n(sums, 2 * cols, 0.0f);
    const std::int64_t first = block * kLayerNormBlockRows, last = std::min(p.rows, first + kLayerNormBlockRows);
    for (std::int64_t row = first; row < last; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const Columns<T> columns{p.x + r * cols, static_cast<const T*>(p.dy.data) + row * p.dy.stride,
                               p.weight,       sums,
                               sums + cols,    p.dx ? p.dx + r * cols : nullptr};
      backward_row(columns, cols, p.mean[r], p.rstd[r]);
    }
  }
}

}  // namespace

void layer_norm_rows(const LayerNormParams& p, std::int64_t begin, std::int64_t end) {
  const auto first = static_cast<std::size_t>(begin), last = static_cast<std::size_t>(end);
  if (p.y.type == FloatType::kF32) {
    layer_norm_typed<float>(p, first, last);
  } else {
    layer_norm_typed<std::uint16_t>(p, first, last);
  }
}

void layer_norm_backward_blocks(const LayerNormBackwardParams& p, float* workspace, std::int64_t begin,
                                std::int64_t end) {
  if (p.dy.type == FloatType::kF32) {
    backward_typed<float>(p, workspace, begin, end);
  } else {
    backward_typed<std::uint16_t>(p, workspace, begin, end);
  }
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {
namespace {

// out[c] = sums[0, first + c] + sums[1, first + c] + ..., rows of `stride` floats; `sums` may be null without blocks.
void add_blocks(const float* sums, std::int64_t blocks, std::int64_t stride, std::int64_t first, float* out,
                std::int64_t begin, std::int64_t end) {
  std::fill(out + begin, out + end, 0.0f);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const float* from = sums + block * stride + first;
    for (std::int64_t c = begin; c < end; ++c) out[c] += from[c];
  }
}

}  // namespace

HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(layer_norm_backward_blocks);

void layer_norm(const LayerNormParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(layer_norm_rows), isa, &layer_norm_reference);
  const std::int64_t grain = 1 + 16384 / (params.cols + 1);
  parallel_for(0, params.rows, grain, [&](std::int64_t begin, std::int64_t end) { run(params, begin, end); });
}

std::int64_t layer_norm_backward_workspace(std::int64_t rows, std::int64_t cols) {
  return div_ceil(rows, kLayerNormBlockRows) * 2 * cols;
}

void layer_norm_backward(const LayerNormBackwardParams& params, float* workspace, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(layer_norm_backward_blocks), isa, &layer_norm_backward_reference);
  const std::int64_t blocks = div_ceil(params.rows, kLayerNormBlockRows), cols = params.cols;
  parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) { run(params, workspace, begin, end); });
  if (!params.dweight && !params.dbias) return;
  parallel_for(0, cols, 256, [&](std::int64_t begin, std::int64_t end) {
    if (params.dweight) add_blocks(workspace, blocks, 2 * cols, 0, params.dweight, begin, end);
    if (params.dbias) add_blocks(workspace, blocks, 2 * cols, cols, params.dbias, begin, end);
  });
}

}  // namespace tessera::kernels
#endif
