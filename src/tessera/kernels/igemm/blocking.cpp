#include "tessera/kernels/igemm/blocking.h"

#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <array>

#include "tessera/base/aligned_buffer.h"
#include "tessera/base/math.h"
#include "tessera/base/parallel.h"
#include "tessera/kernels/igemm/kernel_cache.h"

namespace tessera::kernels {
namespace {

using jit::BlockArgs;
using jit::BlockFn;
using jit::FinishArgs;
using jit::kBlockColumns;

constexpr std::int64_t kDeepColumns = 256;              // columns of a task whose depth is cut: its sums stay in L2
constexpr std::int64_t kMaxRows = 1024;                 // rows of a task
constexpr std::int64_t kFlipBlocks = 4;                 // a panel pair is flipped once if it serves so many blocks
constexpr std::int64_t kStreamBytes = 2 * 1024 * 1024;  // outputs from here on bypass the caches

/// What a micro-kernel wants from its surroundings.
struct Tuning {
  IsaLevel isa;
  int rows;                      ///< of a full block
  std::int64_t depth;            ///< most codes of depth before it is cut
  bool mixed = false;            ///< AVX-512 VNNI: full blocks by inner products and plain steps in turn
  std::uint8_t b_offset = 0;     ///< what kernels add to codes of `b` to have unsigned bytes
  std::uint8_t widen_every = 1;  ///< AVX2: see Avx2Form
  bool bf16 = false;             ///< numbers in place of codes
};

struct Plan {
  std::int64_t m_block, n_block, depth;  // depth: multiple of 64; n_block: of 32
  std::int64_t m_tasks, n_tasks;
};

constexpr std::array<float, kBlockColumns> filled(float value) {
  std::array<float, kBlockColumns> values{};
  values.fill(value);
  return values;
}
alignas(64) constexpr std::array<float, kBlockColumns> kOnes = filled(1.0f);
alignas(64) constexpr std::array<float, kBlockColumns> kNoBias = filled(-0.0f);

// Bytes of the left operand's block: half of L2, so that panels come from farther away as rarely as possible.
std::int64_t left_block_bytes() {
  static const std::int64_t bytes = [] {
    const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);  // 0 where the system does not say
    return std::clamp<std::int64_t>(l2 / 2, 256 * 1024, 2048 * 1024);
  }();
  return bytes;
}

// Scratch of a thread grows to the largest need and stays.
template <typename T>
T* at_least(AlignedBuffer<T>& buffer, std::int64_t size) {
  if (buffer.size() < static_cast<std::size_t>(size)) buffer = AlignedBuffer<T>(static_cast<std::size_t>(size));
  return buffer.data();
}

Plan make_plan(const IgemmParams& p, const Tuning& tuning) {
  const std::int64_t padded_k = igemm_padded_k(p.b.k), threads = num_threads();
  Plan plan{};
  const std::int64_t cuts = std::max<std::int64_t>(div_ceil(padded_k, tuning.depth), 1);
  const std::int64_t unit = tuning.mixed && cuts > 1 ? 3 * kIgemmDepth : kIgemmDepth;  // roles repeat after three steps
  plan.depth = std::max(round_up(div_ceil(padded_k, cuts), unit), kIgemmDepth);
  const std::int64_t left_bytes = cuts > 1 ? left_block_bytes() / 2 : left_block_bytes();  // sums need room, too
  const std::int64_t fitting = std::clamp<std::int64_t>(left_bytes / plan.depth, tuning.rows, kMaxRows);
  plan.m_tasks = div_ceil(p.m, fitting);
  // Equal shares for the threads: by rows if there are enough, else by columns.
  if (p.m >= 2 * threads * tuning.rows) plan.m_tasks = round_up(plan.m_tasks, threads);
  plan.m_block = round_up(div_ceil(p.m, plan.m_tasks), std::int64_t{tuning.rows});
  plan.m_tasks = div_ceil(p.m, plan.m_block);
  const std::int64_t widest = cuts > 1 ? kDeepColumns : p.b.n;
  plan.n_tasks = div_ceil(p.b.n, widest);
  if (plan.m_tasks % threads != 0 && plan.m_tasks < 4 * threads) plan.n_tasks = round_up(plan.n_tasks, threads);
  plan.n_block = round_up(div_ceil(p.b.n, plan.n_tasks), std::int64_t{kBlockColumns});
  plan.n_tasks = div_ceil(p.b.n, plan.n_block);
  return plan;
}

jit::OutKind out_kind(const IgemmParams& p) {
  if (p.acc_out != nullptr) return jit::OutKind::kInt32;
  if (p.out.type == FloatType::kBf16) return jit::OutKind::kBf16;
  return p.accumulate ? jit::OutKind::kF32Add : jit::OutKind::kF32;
}

/// Kernels for one height of block: whole pairs of panels, and what is left at the right edge.
struct Kernels {
  BlockFn whole = nullptr, edge = nullptr;
  int rows = 0;
  bool flipped = false;              ///< they read panels of code + Tuning::b_offset
  bool mixed = false;                ///< they read panels from mix_panel_kernel
  jit::RowSumFn row_sums = nullptr;  ///< where their sums start from; null: zero
};

/// One product: parameters, plan and everything derived from them before threads start.
class BlockedProduct {
 public:
  BlockedProduct(const IgemmParams& params, const Tuning& tuning);
  void run();

 private:
  class Strip;
  Kernels kernels(int rows) const;
  jit::RowSumFn row_sums(bool mixed) const;
  void run_task(std::int64_t task) const;
  void run_strip(const Kernels& kernels, std::int64_t m_begin, std::int64_t m_end, std::int64_t n_begin,
                 std::int64_t n_end) const;

  const IgemmParams& p_;
  Tuning tuning_;
  Plan plan_;
  std::int64_t padded_k_, panel_bytes_, element_bytes_;
  std::uint8_t* out_;
  bool stream_;
  Kernels full_, rest_;
  // Scales of the right edge, padded.
  alignas(64) std::array<float, kBlockColumns> edge_scale_ = kOnes, edge_bias_ = kNoBias;
};

BlockedProduct::BlockedProduct(const IgemmParams& params, const Tuning& tuning)
    : p_(params),
      tuning_(tuning),
      plan_(make_plan(params, tuning)),
      padded_k_(igemm_padded_k(params.b.k)),
      panel_bytes_(padded_k_ * kIgemmPanel),
      element_bytes_(params.acc_out != nullptr ? 4 : bytes_of(params.out.type)),
      out_(static_cast<std::uint8_t*>(params.acc_out != nullptr ? params.acc_out : params.out.data)) {
  const std::int64_t row_bytes = p_.out.stride * element_bytes_;
  stream_ = p_.acc_out == nullptr && !p_.accumulate && p_.m * p_.b.n * element_bytes_ >= kStreamBytes &&
            reinterpret_cast<std::uintptr_t>(out_) % 64 == 0 && row_bytes % 64 == 0;
  full_ = kernels(tuning_.rows);
  if (p_.m % tuning_.rows != 0) rest_ = kernels(static_cast<int>(p_.m % tuning_.rows));
  const std::int64_t edge = p_.b.n % kBlockColumns, first = p_.b.n - edge;
  if (p_.col_scale != nullptr) std::copy_n(p_.col_scale + first, edge, edge_scale_.begin());
  if (p_.bias != nullptr) std::copy_n(p_.bias + first, edge, edge_bias_.begin());
}

Kernels BlockedProduct::kernels(int rows) const {
  jit::BlockKey key;
  key.isa = tuning_.isa;
  key.bf16 = tuning_.bf16;
  // Tile kernels take the number of rows from the tile configuration.
  key.rows = static_cast<std::uint8_t>(tuning_.isa == IsaLevel::kAmx ? round_up(rows, 16) : rows);
  key.out = out_kind(p_);
  const bool avx512 = tuning_.isa >= IsaLevel::kAvx512Vnni;
  key.native_bf16 = key.out == jit::OutKind::kBf16 && avx512 && has_native_bf16();
  if (tuning_.isa == IsaLevel::kAvx2) {
    key.b_offset = tuning_.b_offset;
    key.widen_every = tuning_.widen_every;
  }
  Kernels kernels;
  kernels.rows = rows;
  // AVX-VNNI flips panels on load, which costs it nothing: its products leave a port free.
  const bool prepared = tuning_.b_offset != 0 && tuning_.isa != IsaLevel::kAvxVnni && rows == tuning_.rows &&
                        plan_.m_block >= kFlipBlocks * rows;
  kernels.mixed = key.mixed = prepared && tuning_.mixed;
  kernels.flipped = key.unsigned_b = prepared && !tuning_.mixed;
  kernels.row_sums = row_sums(kernels.mixed);
  key.panels = 2;
  key.stream = stream_;
  if (p_.b.n >= kBlockColumns) kernels.whole = block_kernel(key);
  if (const std::int64_t edge = p_.b.n % kBlockColumns; edge != 0) {
    key.panels = edge > kIgemmPanel ? 2 : 1;
    key.masked = edge != kIgemmPanel;
    key.stream = false;
    kernels.edge = block_kernel(key);
  }
  return kernels;
}

jit::RowSumFn BlockedProduct::row_sums(bool mixed) const {
  if (tuning_.b_offset == 0) return nullptr;
  return tuning_.isa == IsaLevel::kAvx512Vnni ? row_sum_kernel(mixed) : avx2_row_sum_kernel(tuning_.b_offset);
}

void BlockedProduct::run() {
  if (tuning_.mixed) mix_panel_kernel();  // generated before threads start
  parallel_for(0, plan_.m_tasks * plan_.n_tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t task = begin; task < end; ++task) run_task(task);
    if (tuning_.isa == IsaLevel::kAmx) release_tiles();
    if (stream_) _mm_sfence();
  });
}

void BlockedProduct::run_task(std::int64_t task) const {
  const std::int64_t m_begin = task / plan_.n_tasks * plan_.m_block, n_begin = task % plan_.n_tasks * plan_.n_block;
  const std::int64_t m_end = std::min(m_begin + plan_.m_block, p_.m), n_end = std::min(n_begin + plan_.n_block, p_.b.n);
  const std::int64_t m_full = m_begin + (m_end - m_begin) / tuning_.rows * tuning_.rows;
  if (m_full > m_begin) run_strip(full_, m_begin, m_full, n_begin, n_end);
  if (m_end > m_full) run_strip(rest_, m_full, m_end, n_begin, n_end);
}

/// Blocks of one height, in the order they are multiplied; remembers the block that waits for its finish.
class BlockedProduct::Strip {
 public:
  Strip(const BlockedProduct& product, const Kernels& kernels, std::int64_t m_begin, std::int64_t m_end,
        std::int64_t n_begin, std::int64_t n_end);
  void run();

 private:
  void take_panels(std::int64_t k, std::int64_t n);
  void multiply(std::int64_t k, std::int64_t n, std::int64_t m);
  FinishArgs finish_of(std::int64_t n, std::int64_t m, const std::int32_t* acc) const;
  std::int32_t* sums_of(std::int64_t n, std::int64_t m);
  void flush();

  const BlockedProduct& c_;
  const Kernels& kernels_;
  std::int64_t m_begin_, m_end_, n_begin_, n_end_;
  std::int32_t* deep_sums_ = nullptr;  // [column block][row block][rows][32], when depth is cut
  std::int8_t* prepared_ = nullptr;    // a pair of panels as flipped or mixed kernels read them
  const std::int8_t* b_ = nullptr;     // panels that are multiplied now, and their depth
  std::int64_t steps_ = 0;
  BlockArgs args_{};
  BlockFn pending_ = nullptr;  // the kernel that can finish args_.finish
  int turn_ = 0;
  alignas(64) std::int32_t sums_[2][32 * kBlockColumns];
  alignas(64) std::int32_t col_init_[kBlockColumns] = {};
  std::int32_t row_init_[kMaxRows + 32];
};

BlockedProduct::Strip::Strip(const BlockedProduct& product, const Kernels& kernels, std::int64_t m_begin,
                             std::int64_t m_end, std::int64_t n_begin, std::int64_t n_end)
    : c_(product), kernels_(kernels), m_begin_(m_begin), m_end_(m_end), n_begin_(n_begin), n_end_(n_end) {
  args_.a_stride = c_.p_.a_stride;
  args_.panel_bytes = c_.panel_bytes_;
  args_.finish.col_scale = kOnes.data();
  args_.finish.bias = kNoBias.data();
  if (c_.plan_.depth < c_.padded_k_) {
    thread_local AlignedBuffer<std::int32_t> buffer;
    deep_sums_ = at_least(buffer, round_up(n_end - n_begin, std::int64_t{kBlockColumns}) *
                                      round_up(m_end - m_begin, std::int64_t{kernels.rows}));
  }
  args_.col_init = col_init_;
  if (kernels.flipped || kernels.mixed) {
    thread_local AlignedBuffer<std::int8_t> buffer;
    prepared_ = at_least(buffer, 2 * kIgemmPanel * c_.plan_.depth);
  }
  if (c_.tuning_.isa == IsaLevel::kAmx) configure_tiles(kernels.rows);
  if (kernels.row_sums != nullptr) {
    const jit::RowSumArgs rows{c_.p_.a + m_begin * c_.p_.a_stride, c_.p_.a_stride, c_.padded_k_ / kIgemmDepth,
                               m_end - m_begin, row_init_};
    kernels.row_sums(&rows);
  } else {
    std::fill_n(row_init_, m_end - m_begin, 0);
  }
}

void BlockedProduct::Strip::run() {
  std::int64_t k = 0;
  do {  // once for k = 0 as well
    for (std::int64_t n = n_begin_; n < n_end_; n += kBlockColumns) {
      take_panels(k, n);
      for (std::int64_t m = m_begin_; m < m_end_; m += kernels_.rows) multiply(k, n, m);
    }
    k += c_.plan_.depth;
  } while (k < c_.padded_k_);
  flush();
}

// The panels of columns n..n+31 from depth k on, as the kernels want them.
void BlockedProduct::Strip::take_panels(std::int64_t k, std::int64_t n) {
  const std::int64_t depth = std::min(c_.plan_.depth, c_.padded_k_ - k), bytes = depth * kIgemmPanel;
  steps_ = depth / kIgemmDepth;
  b_ = c_.p_.b.panels + n / kIgemmPanel * c_.panel_bytes_ + k * kIgemmPanel;
  if (prepared_ == nullptr) return;
  const std::uint8_t offset = c_.tuning_.b_offset;
  for (std::int64_t panel = 0; panel < std::min<std::int64_t>(2, div_ceil(c_.p_.b.n - n, kIgemmPanel)); ++panel) {
    const std::int8_t* from = b_ + panel * c_.panel_bytes_;
    std::int8_t* to = prepared_ + panel * bytes;
    if (kernels_.mixed) {
      const jit::MixPanelArgs mix{from, to, steps_, col_init_ + panel * kIgemmPanel};
      mix_panel_kernel()(&mix);
      continue;
    }
    for (std::int64_t i = 0; i < bytes; ++i) to[i] = static_cast<std::int8_t>(from[i] + offset);
  }
  b_ = prepared_;
  args_.panel_bytes = bytes;
}

void BlockedProduct::Strip::multiply(std::int64_t k, std::int64_t n, std::int64_t m) {
  const BlockFn kernel = n + kBlockColumns <= c_.p_.b.n ? kernels_.whole : kernels_.edge;
  if (pending_ != nullptr && pending_ != kernel) flush();
  args_.a = c_.p_.a + m * c_.p_.a_stride + k;
  args_.b = b_;
  args_.steps = steps_;
  args_.acc = sums_of(n, m);
  args_.row_init = row_init_ + (m - m_begin_);
  args_.load_acc = k > 0;
  kernel(&args_);
  args_.finish.rows = 0;
  pending_ = nullptr;
  if (k + c_.plan_.depth >= c_.padded_k_) {
    args_.finish = finish_of(n, m, args_.acc);
    pending_ = kernel;
  }
}

std::int32_t* BlockedProduct::Strip::sums_of(std::int64_t n, std::int64_t m) {
  if (deep_sums_ == nullptr) return sums_[turn_ ^= 1];
  const std::int64_t column_block = (n - n_begin_) / kBlockColumns, row_blocks = (m_end_ - m_begin_) / kernels_.rows;
  return deep_sums_ + (column_block * row_blocks * kernels_.rows + (m - m_begin_)) * kBlockColumns;
}

FinishArgs BlockedProduct::Strip::finish_of(std::int64_t n, std::int64_t m, const std::int32_t* acc) const {
  const IgemmParams& p = c_.p_;
  const bool whole = n + kBlockColumns <= p.b.n;
  FinishArgs finish;
  finish.acc = acc;
  finish.out = c_.out_ + (m * p.out.stride + n) * c_.element_bytes_;
  finish.out_stride = p.out.stride * c_.element_bytes_;
  finish.row_scale = p.row_scale != nullptr ? p.row_scale + m : kOnes.data();
  finish.col_scale = !whole ? c_.edge_scale_.data() : p.col_scale != nullptr ? p.col_scale + n : kOnes.data();
  finish.bias = !whole ? c_.edge_bias_.data() : p.bias != nullptr ? p.bias + n : kNoBias.data();
  finish.rows = kernels_.rows;
  finish.columns = whole ? ~std::uint64_t{0} : (std::uint64_t{1} << (p.b.n - n)) - 1;
  return finish;
}

// Finish the block that waits, beside a product of depth 0.
void BlockedProduct::Strip::flush() {
  if (pending_ == nullptr) return;
  args_.steps = 0;
  args_.load_acc = 0;
  args_.row_init = row_init_;
  args_.acc = sums_[turn_ ^= 1];
  pending_(&args_);
  pending_ = nullptr;
  args_.finish.rows = 0;
}

void BlockedProduct::run_strip(const Kernels& kernels, std::int64_t m_begin, std::int64_t m_end, std::int64_t n_begin,
                               std::int64_t n_end) const {
  Strip(*this, kernels, m_begin, m_end, n_begin, n_end).run();
}

void run_blocked(const IgemmParams& params, const Tuning& tuning) {
  if (params.m == 0 || params.b.n == 0) return;
  BlockedProduct(params, tuning).run();
}

}  // namespace

void igemm_amx(const IgemmParams& params) { run_blocked(params, {.isa = IsaLevel::kAmx, .rows = 32, .depth = 4096}); }

void igemm_avx512_mixed(const IgemmParams& params) {
  run_blocked(params, {.isa = IsaLevel::kAvx512Vnni, .rows = 10, .depth = 1024, .mixed = true, .b_offset = 128});
}

void igemm_avx512_vnni(const IgemmParams& params) {
  run_blocked(params, {.isa = IsaLevel::kAvx512Vnni, .rows = 12, .depth = 1024, .b_offset = 128});
}

void bgemm_amx(const IgemmParams& params) {
  run_blocked(params, {.isa = IsaLevel::kAmx, .rows = 32, .depth = 4096, .bf16 = true});
}

void bgemm_avx512(const IgemmParams& params) {
  run_blocked(params, {.isa = IsaLevel::kAvx512Vnni, .rows = 12, .depth = 1024, .bf16 = true});
}

// Depth of both: a pair of panels and a block of rows fit 32 KiB of L1.
void igemm_avx_vnni(const IgemmParams& params) {
  run_blocked(params, {.isa = IsaLevel::kAvxVnni, .rows = 6, .depth = 768, .b_offset = 128});
}

void igemm_avx2(const IgemmParams& params) {
  const jit::Avx2Form form = jit::avx2_form(params.a_limit, params.b.limit);
  run_blocked(params, {.isa = IsaLevel::kAvx2,
                       .rows = form.rows,
                       .depth = 768,
                       .b_offset = form.b_offset,
                       .widen_every = form.widen_every});
}

}  // namespace tessera::kernels
