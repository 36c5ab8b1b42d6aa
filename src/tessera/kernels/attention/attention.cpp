// One thread works on a (batch, head) at a time: keys and values are packed once, then 96 queries after another.
// Products are tiles of 12 x 32 sums; tiles wholly in the future are left out.
#include "tessera/kernels/attention/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tessera/kernels/attention/attention.cpp"
#include <hwy/foreach_target.h>

#include <cmath>

#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/attention/operands-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::kernels::HWY_NAMESPACE {
namespace {

constexpr std::size_t kRows = kTileRows, kColumns = kTileColumns;
constexpr std::size_t kBlock = 96;  // queries, and keys of a backward tile: a multiple of both; 36 KiB of f32

// Hands out pieces of the thread's scratch, each at a multiple of 64 bytes; the first pass, without memory, counts.
class Carver {
 public:
  explicit Carver(float* data) : data_(data) {}
  float* take(std::size_t floats) {
    const std::size_t at = used_;
    used_ += (floats + 15) / 16 * 16;
    return data_ ? data_ + at : nullptr;
  }
  std::size_t used() const { return used_; }

 private:
  float* data_;
  std::size_t used_ = 0;
};

// Sizes of a head, and where its rows are.
struct Head {
  explicit Head(const AttentionShape& s)
      : shape(s),
        tokens(static_cast<std::size_t>(s.tokens)),
        padded((tokens + kBlock - 1) / kBlock * kBlock),
        size(static_cast<std::size_t>(s.head_size)),
        width((size + kColumns - 1) / kColumns * kColumns),
        qkv_stride(static_cast<std::size_t>(s.qkv_stride())),
        o_stride(static_cast<std::size_t>(s.o_stride())) {}
  // Elements before row 0 of query (0), key (1) or value (2), and of o.
  std::size_t qkv(std::int64_t head, std::int64_t part) const {
    const std::int64_t first = head / shape.heads * shape.tokens * shape.qkv_stride();
    return static_cast<std::size_t>(first + (part * shape.heads + head % shape.heads) * shape.head_size);
  }
  std::size_t o(std::int64_t head) const {
    const std::int64_t first = head / shape.heads * shape.tokens * shape.o_stride();
    return static_cast<std::size_t>(first + head % shape.heads * shape.head_size);
  }

  AttentionShape shape;
  std::size_t tokens, padded, size, width, qkv_stride, o_stride;
};

std::size_t rows_of_block(const Head& h, std::size_t first) { return std::min(kBlock, h.tokens - first); }
std::size_t whole_groups(std::size_t rows) { return (rows + kRows - 1) / kRows * kRows; }

struct Operand {
  const float* data;
  std::size_t stride;  // words
};

HWY_INLINE void multiply(TileFn run, Operand a, Operand b, float* c, std::size_t c_stride, std::size_t steps,
                         bool add) {
  const auto bytes = [](std::size_t n) { return static_cast<std::int64_t>(n * sizeof(float)); };
  const TileArgs args{
      a.data, bytes(a.stride), b.data, bytes(b.stride), c, bytes(c_stride), static_cast<std::int64_t>(steps), add};
  run(&args);
}

// Scores of a row in place: exp((x - max) * scale) of the first n, zeros up to `end`, as f32 or as bf16.
template <bool kPairs>
HWY_INLINE void softmax_row(float* x, std::size_t n, std::size_t end, float scale, float& sum, float& lse) {
  const F32Tag d;
  F32 largest = hn::Set(d, -std::numeric_limits<float>::infinity()), total = hn::Zero(d);
  std::size_t c = 0;
  for (; c + kLanes <= n; c += kLanes) largest = hn::Max(largest, load_row(x + c));
  if (c < n) largest = hn::Max(largest, hn::IfThenElse(lanes_before(c, n), load_row(x + c), largest));
  const float max = hn::GetLane(hn::MaxOfLanes(d, largest));
  const F32 max_v = hn::Set(d, max), scale_v = hn::Set(d, scale);
  auto* narrow = reinterpret_cast<std::uint16_t*>(x);
  for (c = 0; c < end; c += kLanes) {
    F32 e = hn::Zero(d);
    if (c < n) e = hn::IfThenElseZero(lanes_before(c, n), exp_fast(hn::Mul(hn::Sub(load_row(x + c), max_v), scale_v)));
    total = hn::Add(total, e);
    if constexpr (kPairs) {
      store_row(e, narrow + c);
    } else {
      store_row(e, x + c);
    }
  }
  sum = hn::GetLane(hn::SumOfLanes(d, total));
  lse = static_cast<float>(static_cast<double>(max) * static_cast<double>(scale) + std::log(static_cast<double>(sum)));
}

template <typename T, bool kPairs>
class Forward {
 public:
  Forward(const AttentionParams& p, const TileKernels& tiles)
      : p_(p), h_(p.shape), tiles_(tiles), depth_(words<kPairs>(h_.size)), score_stride_(h_.padded + kLanes) {
    Carver count(nullptr);
    carve(count);
    Carver carver(thread_scratch(count.used()));
    carve(carver);
  }

  void run(std::int64_t head) {
    const T* qkv = static_cast<const T*>(p_.qkv);
    const T* value = qkv + h_.qkv(head, 2);
    pack_rows<kPairs>(qkv + h_.qkv(head, 1), h_.qkv_stride, h_.tokens, h_.padded, h_.size, rows_);
    turn_rows(rows_, h_.padded, depth_, keys_);
    pack_blended<kPairs>(value, h_.qkv_stride, h_.tokens, h_.padded, h_.size, h_.width, values_);
    for (std::size_t first = 0; first < h_.tokens; first += kBlock) block(head, first);
  }

 private:
  void carve(Carver& carver) {
    rows_ = carver.take(h_.padded * depth_);
    keys_ = carver.take(h_.padded * depth_);
    values_ = carver.take(h_.padded * h_.width);
    queries_ = carver.take(kBlock * depth_);
    scores_ = carver.take(kBlock * score_stride_);
    sums_ = carver.take(kBlock * h_.width);
  }

  void block(std::int64_t head, std::size_t first) {
    const std::size_t rows = rows_of_block(h_, first), groups = whole_groups(rows);
    const T* query = static_cast<const T*>(p_.qkv) + h_.qkv(head, 0) + first * h_.qkv_stride;
    pack_rows<kPairs>(query, h_.qkv_stride, rows, groups, h_.size, queries_);
    for (std::size_t c = 0; c < first + groups; c += kColumns)
      for (std::size_t r = 0; r < groups; r += kRows)
        if (c < first + r + kRows)
          multiply(tiles_.plain, {queries_ + r * depth_, depth_}, {keys_ + c * depth_, kColumns},
                   scores_ + r * score_stride_ + c, score_stride_, depth_, false);
    float sum[kBlock] = {};
    float* lse = p_.lse + head * p_.shape.tokens + first;
    for (std::size_t r = 0; r < groups; ++r) {
      const std::size_t end = first + whole_groups(r + 1);
      float* row = scores_ + r * score_stride_;
      if (r < rows) {
        softmax_row<kPairs>(row, first + r + 1, end, p_.scale, sum[r], lse[r]);
      } else {
        std::fill(row, row + end, 0.0f);
      }
    }
    T* out = static_cast<T*>(p_.o) + h_.o(head) + first * h_.o_stride;
    for (std::size_t r = 0; r < groups; r += kRows)
      for (std::size_t c = 0; c < h_.width; c += kColumns)
        multiply(tiles_.plain, {scores_ + r * score_stride_, score_stride_}, {values_ + c, h_.width},
                 sums_ + r * h_.width + c, h_.width, words<kPairs>(first + r + kRows), false);
    for (std::size_t r = 0; r < rows; ++r)
      scale_row(sums_ + r * h_.width, 1.0f / sum[r], h_.size, out + r * h_.o_stride);
  }

  const AttentionParams& p_;
  Head h_;
  TileKernels tiles_;
  std::size_t depth_, score_stride_;
  float *rows_, *keys_, *values_, *queries_, *scores_, *sums_;
};

template <typename T, bool kPairs>
class Backward {
 public:
  Backward(const AttentionBackwardParams& p, const TileKernels& tiles)
      : p_(p), h_(p.shape), tiles_(tiles), depth_(words<kPairs>(h_.size)) {
    Carver count(nullptr);
    carve(count);
    Carver carver(thread_scratch(count.used()));
    carve(carver);
  }

  void run(std::int64_t head) {
    const T* qkv = static_cast<const T*>(p_.qkv);
    T* dqkv = static_cast<T*>(p_.dqkv);
    const T *key = qkv + h_.qkv(head, 1), *value = qkv + h_.qkv(head, 2);
    pack_rows<kPairs>(key, h_.qkv_stride, h_.tokens, h_.padded, h_.size, rows_);
    turn_rows(rows_, h_.padded, depth_, keys_);
    pack_rows<kPairs>(value, h_.qkv_stride, h_.tokens, h_.padded, h_.size, rows_);
    turn_rows(rows_, h_.padded, depth_, values_);
    pack_blended<kPairs>(key, h_.qkv_stride, h_.tokens, h_.padded, h_.size, h_.width, key_blend_);
    std::fill(dk_, dk_ + h_.padded * h_.width, 0.0f);
    std::fill(dv_, dv_ + h_.padded * h_.width, 0.0f);
    for (std::size_t first = 0; first < h_.tokens; first += kBlock) block(head, first);
    store(dk_, h_.tokens, p_.scale, dqkv + h_.qkv(head, 1));
    store(dv_, h_.tokens, 1.0f, dqkv + h_.qkv(head, 2));
  }

 private:
  void carve(Carver& carver) {
    for (float** keys : {&rows_, &keys_, &values_}) *keys = carver.take(h_.padded * depth_);
    key_blend_ = carver.take(words<kPairs>(h_.padded) * h_.width);
    for (float** sums : {&dk_, &dv_}) *sums = carver.take(h_.padded * h_.width);
    for (float** rows : {&q_rows_, &do_rows_}) *rows = carver.take(kBlock * depth_);
    for (float** blend : {&q_blend_, &do_blend_}) *blend = carver.take(words<kPairs>(kBlock) * h_.width);
    dq_ = carver.take(kBlock * h_.width);
    for (float** tile : {&p_tile_, &ds_tile_}) *tile = carver.take(kBlock * kBlock);
    if (kPairs)
      for (float** tile : {&p_pairs_, &ds_pairs_, &ds_rows_}) *tile = carver.take(kBlock * kBlock / 2);
  }

  void store(const float* sums, std::size_t rows, float factor, T* to) {
    for (std::size_t r = 0; r < rows; ++r) scale_row(sums + r * h_.width, factor, h_.size, to + r * h_.qkv_stride);
  }

  void block(std::int64_t head, std::size_t first) {
    const std::size_t rows = rows_of_block(h_, first), groups = whole_groups(rows);
    const T* query = static_cast<const T*>(p_.qkv) + h_.qkv(head, 0) + first * h_.qkv_stride;
    const std::size_t at = h_.o(head) + first * h_.o_stride;
    const T *o = static_cast<const T*>(p_.o) + at, *d_o = static_cast<const T*>(p_.d_o) + at;
    pack_rows<kPairs>(query, h_.qkv_stride, rows, groups, h_.size, q_rows_);
    pack_rows<kPairs>(d_o, h_.o_stride, rows, groups, h_.size, do_rows_);
    pack_blended<kPairs>(query, h_.qkv_stride, rows, groups, h_.size, h_.width, q_blend_);
    pack_blended<kPairs>(d_o, h_.o_stride, rows, groups, h_.size, h_.width, do_blend_);
    for (std::size_t r = 0; r < rows; ++r) delta_[r] = dot(d_o + r * h_.o_stride, o + r * h_.o_stride, h_.size);
    lse_ = p_.lse + head * p_.shape.tokens + first;
    for (std::size_t key = 0; key <= first; key += kBlock) {
      const bool diagonal = key == first;
      scores(key, groups, diagonal);
      for (std::size_t r = 0; r < groups; ++r) gradient_row(r, r < rows ? (diagonal ? r + 1 : kBlock) : 0);
      if constexpr (kPairs) round_tiles(groups);
      key_gradients(key, groups, diagonal);
      query_gradients(key, groups, diagonal);
    }
    store(dq_, rows, p_.scale, static_cast<T*>(p_.dqkv) + h_.qkv(head, 0) + first * h_.qkv_stride);
  }

  // q k^T into p_tile_, do v^T into ds_tile_.
  void scores(std::size_t key, std::size_t groups, bool diagonal) {
    for (std::size_t c = 0; c < kBlock; c += kColumns) {
      for (std::size_t r = diagonal ? c / kRows * kRows : 0; r < groups; r += kRows) {
        const std::size_t at = r * kBlock + c, panel = (key + c) * depth_;
        multiply(tiles_.plain, {q_rows_ + r * depth_, depth_}, {keys_ + panel, kColumns}, p_tile_ + at, kBlock, depth_,
                 false);
        multiply(tiles_.plain, {do_rows_ + r * depth_, depth_}, {values_ + panel, kColumns}, ds_tile_ + at, kBlock,
                 depth_, false);
      }
    }
  }

  // p and ds of the first n keys of a row, zeros for the others.
  HWY_INLINE void gradient_row(std::size_t r, std::size_t n) {
    const F32Tag d;
    float *p = p_tile_ + r * kBlock, *ds = ds_tile_ + r * kBlock;
    if (n == 0) {
      std::fill(p, p + kBlock, 0.0f);
      std::fill(ds, ds + kBlock, 0.0f);
      return;
    }
    const F32 scale = hn::Set(d, p_.scale), lse = hn::Set(d, lse_[r]), delta = hn::Set(d, delta_[r]);
    for (std::size_t c = 0; c < kBlock; c += kLanes) {
      const auto inside = lanes_before(c, n);
      const F32 probability = exp_fast(hn::MulSub(load_row(p + c), scale, lse));
      store_row(hn::IfThenElseZero(inside, hn::Mul(probability, hn::Sub(load_row(ds + c), delta))), ds + c);
      store_row(hn::IfThenElseZero(inside, probability), p + c);
    }
  }

  // bf16 of both tiles: pairs along the queries, and of ds also along the keys.
  HWY_INLINE void round_tiles(std::size_t groups) {
    for (std::size_t r = 0; r < groups; r += 2) {
      for (std::size_t c = 0; c < kBlock; c += kLanes) {
        const std::size_t at = r * kBlock + c, pair = r / 2 * kBlock + c;
        const F32 ds = load_row(ds_tile_ + at), ds_next = load_row(ds_tile_ + at + kBlock);
        store_row(pair_of(bf16_of(load_row(p_tile_ + at)), bf16_of(load_row(p_tile_ + at + kBlock))), p_pairs_ + pair);
        store_row(pair_of(bf16_of(ds), bf16_of(ds_next)), ds_pairs_ + pair);
        store_row(ds, reinterpret_cast<std::uint16_t*>(ds_rows_) + at);
        store_row(ds_next, reinterpret_cast<std::uint16_t*>(ds_rows_) + at + kBlock);
      }
    }
  }

  // dv += p^T do, dk += ds^T q for the keys of the tile; on the diagonal, from the queries that see them.
  void key_gradients(std::size_t key, std::size_t groups, bool diagonal) {
    const float *p = kPairs ? p_pairs_ : p_tile_, *ds = kPairs ? ds_pairs_ : ds_tile_;
    for (std::size_t j = 0; j < (diagonal ? groups : kBlock); j += kRows) {
      const std::size_t from = diagonal ? words<kPairs>(j) : 0, steps = words<kPairs>(groups) - from;
      const std::size_t a = from * kBlock + j;
      for (std::size_t c = 0; c < h_.width; c += kColumns) {
        const std::size_t b = from * h_.width + c, sum = (key + j) * h_.width + c;
        multiply(tiles_.turned, {p + a, kBlock}, {do_blend_ + b, h_.width}, dv_ + sum, h_.width, steps, true);
        multiply(tiles_.turned, {ds + a, kBlock}, {q_blend_ + b, h_.width}, dk_ + sum, h_.width, steps, true);
      }
    }
  }

  // dq += ds k; on the diagonal, of the keys that the queries see.
  void query_gradients(std::size_t key, std::size_t groups, bool diagonal) {
    const float* ds = kPairs ? ds_rows_ : ds_tile_;
    const std::size_t stride = words<kPairs>(kBlock);
    for (std::size_t r = 0; r < groups; r += kRows)
      for (std::size_t c = 0; c < h_.width; c += kColumns)
        multiply(tiles_.plain, {ds + r * stride, stride}, {key_blend_ + words<kPairs>(key) * h_.width + c, h_.width},
                 dq_ + r * h_.width + c, h_.width, words<kPairs>(diagonal ? r + kRows : kBlock), key != 0);
  }

  const AttentionBackwardParams& p_;
  Head h_;
  TileKernels tiles_;
  std::size_t depth_;
  float *rows_, *keys_, *values_, *key_blend_, *dk_, *dv_, *q_rows_, *do_rows_, *q_blend_, *do_blend_, *dq_;
  float *p_tile_, *ds_tile_, *p_pairs_ = nullptr, *ds_pairs_ = nullptr, *ds_rows_ = nullptr;
  const float* lse_ = nullptr;
  float delta_[kBlock];
};

template <template <typename, bool> class Direction, typename Params>
void run_heads(const Params& p, const AttentionTiles& tiles, std::int64_t begin, std::int64_t end) {
  const bool generated = kLanes == 16 && tiles.f32.plain != nullptr;
  const TileKernels f32 = generated ? tiles.f32 : TileKernels{simd_tile<false>, simd_tile<true>};
  const auto run = [&](auto&& heads) {
    for (std::int64_t head = begin; head < end; ++head) heads.run(head);
  };
  if (p.type == FloatType::kF32) {
    run(Direction<float, false>(p, f32));
  } else if (kLanes == 16 && tiles.bf16_pairs.plain != nullptr) {
    run(Direction<std::uint16_t, true>(p, tiles.bf16_pairs));
  } else {
    run(Direction<std::uint16_t, false>(p, f32));
  }
}

}  // namespace

void attention_heads(const AttentionParams& p, const AttentionTiles& tiles, std::int64_t begin, std::int64_t end) {
  run_heads<Forward>(p, tiles, begin, end);
}

void attention_backward_heads(const AttentionBackwardParams& p, const AttentionTiles& tiles, std::int64_t begin,
                              std::int64_t end) {
  run_heads<Backward>(p, tiles, begin, end);
}

}  // namespace tessera::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "tessera/kernels/dispatch.h"

namespace tessera::kernels {
namespace {

void reference_heads(const AttentionParams& p, const AttentionTiles& /*tiles*/, std::int64_t begin, std::int64_t end) {
  attention_reference(p, begin, end);
}

void reference_backward_heads(const AttentionBackwardParams& p, const AttentionTiles& /*tiles*/, std::int64_t begin,
                              std::int64_t end) {
  attention_backward_reference(p, begin, end);
}

AttentionTiles tiles_for(IsaSet isa) {
  if (!isa.avx512_vnni) return {};
  return {generated_tiles(false), generated_tiles(true)};
}

}  // namespace

HWY_EXPORT(attention_heads);
HWY_EXPORT(attention_backward_heads);

bool attention_supported(const AttentionShape& s) {
  return s.batch > 0 && s.tokens > 0 && s.heads > 0 && s.head_size > 0 && s.head_size % 16 == 0 && s.head_size <= 128;
}

void attention(const AttentionParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(attention_heads), isa, &reference_heads);
  const AttentionTiles tiles = tiles_for(isa);
  parallel_for(0, params.shape.batch * params.shape.heads, 1,
               [&](std::int64_t begin, std::int64_t end) { run(params, tiles, begin, end); });
}

void attention_backward(const AttentionBackwardParams& params, IsaSet isa) {
  const auto run = simd_entry(HWY_DISPATCH_TABLE(attention_backward_heads), isa, &reference_backward_heads);
  const AttentionTiles tiles = tiles_for(isa);
  parallel_for(0, params.shape.batch * params.shape.heads, 1,
               [&](std::int64_t begin, std::int64_t end) { run(params, tiles, begin, end); });
}

}  // namespace tessera::kernels
#endif
