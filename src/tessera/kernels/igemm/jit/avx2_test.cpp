// The kernels for CPUs without AVX-512, called as the driver calls them, against plain loops, with every operand flush
// against a guard page.
#include "tessera/kernels/igemm/jit/avx2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <vector>

#include "tessera/base/testing/guard_page.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels::jit {
namespace {

using tessera::testing::GuardedArray;

struct Limits {
  int a, b;
};
constexpr Limits kLimits[] = {{127, 127}, {98, 98}, {98, 63}, {127, 63}, {63, 63}, {98, 7}, {7, 98}, {7, 7}, {1, 1}};

/// A kernel, its key and the row sums that belong to it.
struct Kernel {
  Kernel(IsaLevel isa, Limits limits, BlockKey rest) {
    key = rest;
    key.isa = isa;
    offset = 128;
    if (isa == IsaLevel::kAvx2) {
      const Avx2Form form = avx2_form(limits.a, limits.b);
      key.b_offset = form.b_offset;
      key.widen_every = form.widen_every;
      key.rows = std::min(key.rows, form.rows);
      offset = form.b_offset;
    }
  }

  BlockKey key;
  int offset = 0;
};

class Avx2KernelTest : public ::testing::TestWithParam<IsaLevel> {
 protected:
  void SetUp() override {
    if (!detected_isa().has(GetParam())) GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam());
  }
};

/// Operands of one block. `extreme`: 0 random codes, 1 random signs of the limits, 2 all codes at the limits.
struct Operands {
  Operands(int rows_, int panels_, std::int64_t steps_, Limits limits, int extreme, std::mt19937& random)
      : rows(rows_),
        panels(panels_),
        steps(steps_),
        stride(64 * steps + 64),
        a(static_cast<std::size_t>((rows - 1) * stride + 64 * steps)),
        b(static_cast<std::size_t>(panels * 1024 * steps)),
        row_init(static_cast<std::size_t>(rows)) {
    const auto code = [&](int limit) {
      if (extreme == 2) return limit;
      if (extreme == 1) return random() % 4 != 0 ? limit : -limit;
      return static_cast<int>(random() % (2 * static_cast<unsigned>(limit) + 1)) - limit;
    };
    for (std::int8_t& c : a) c = static_cast<std::int8_t>(code(limits.a));
    for (std::int8_t& c : b) c = static_cast<std::int8_t>(extreme == 2 ? -code(limits.b) : code(limits.b));
  }

  std::int32_t product(int r, int c) const {
    const std::int8_t* panel = b.data() + c / 16 * 1024 * steps;
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < 64 * steps; ++k)
      sum += a[static_cast<std::size_t>(r * stride + k)] * panel[(k / 4 * 16 + c % 16) * 4 + k % 4];
    return sum;
  }

  int rows, panels;
  std::int64_t steps, stride;
  GuardedArray<std::int8_t> a, b;
  GuardedArray<std::int32_t> row_init;
};

void expect_products(const Kernel& kernel, Operands& o) {
  const Avx2Kernel generated(kernel.key);
  const Avx2RowSumKernel row_sums(kernel.offset);
  const RowSumArgs sum_args{o.a.data(), o.stride, o.steps, o.rows, o.row_init.data()};
  row_sums.getCode<RowSumFn>()(&sum_args);
  if (kernel.key.unsigned_b)
    for (std::int8_t& c : o.b) c = static_cast<std::int8_t>(c + kernel.offset);
  GuardedArray<std::int32_t> acc(static_cast<std::size_t>(o.rows * kBlockColumns));
  std::fill(acc.begin(), acc.end(), 77);
  BlockArgs args{};
  args.a = o.a.data();
  args.a_stride = o.stride;
  args.b = o.b.data();
  args.panel_bytes = 1024 * o.steps;
  args.acc = acc.data();
  args.row_init = o.row_init.data();
  // In two pieces where there are so many steps; the second goes on from the sums of the first.
  const std::int64_t first = o.steps / 3;
  const auto run = generated.getCode<BlockFn>();
  args.steps = first;
  run(&args);
  args.a += 64 * first;
  args.b += 1024 * first;
  args.steps = o.steps - first;
  args.load_acc = 1;
  run(&args);
  if (kernel.key.unsigned_b)
    for (std::int8_t& c : o.b) c = static_cast<std::int8_t>(c - kernel.offset);
  for (int r = 0; r < o.rows; ++r)
    for (int c = 0; c < kBlockColumns; ++c)
      ASSERT_EQ(acc[static_cast<std::size_t>(r * kBlockColumns + c)], c < 16 * o.panels ? o.product(r, c) : 77)
          << generated.name() << " steps " << o.steps << " at " << r << "," << c;
}

TEST_P(Avx2KernelTest, ProductsAreExact) {
  std::mt19937 random(1);
  for (Limits limits : kLimits)
    for (int rows = 1; rows <= kAvx2Rows; ++rows)
      for (int panels : {1, 2})
        for (std::int64_t steps : {0, 1, 2, 3, 11})
          for (int extreme : {0, 1, 2}) {
            BlockKey key{.rows = static_cast<std::uint8_t>(rows), .panels = static_cast<std::uint8_t>(panels)};
            key.out = OutKind::kInt32;
            Kernel kernel(GetParam(), limits, key);
            kernel.key.unsigned_b = steps == 2 && kernel.offset != 0;
            Operands operands(kernel.key.rows, panels, steps, limits, extreme, random);
            ASSERT_NO_FATAL_FAILURE(expect_products(kernel, operands)) << limits.a << " x " << limits.b;
          }
}

/// What a finish reads, and the bytes that it must leave behind.
struct Finish {
  Finish(const BlockKey& key_, int rows_, std::uint32_t columns_, std::uint32_t seed)
      : key(key_), rows(rows_), columns(columns_) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (std::int32_t& sum : sums) sum = static_cast<std::int32_t>(random()) >> random() % 32;
    for (float& scale : row_scale) scale = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    for (std::size_t r = 0; r < row_scale.size(); r += 2) row_scale[r] = normal(random);
    for (std::size_t c = 0; c < col_scale.size(); ++c) {
      col_scale[c] = normal(random);
      bias[c] = c % 3 == 0 ? -0.0f : normal(random);
    }
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(random() % 100);
  }

  std::int64_t element() const { return key.out == OutKind::kBf16 ? 2 : 4; }
  std::int64_t width() const { return std::bit_width(columns); }  // up to the last column that is stored
  std::int64_t stride() const { return element() * (key.stream ? 64 : width() + 3); }

  std::vector<std::uint8_t> expected() const {
    std::vector<std::uint8_t> bytes(out.data(), out.data() + out.size());
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < 16 * key.panels; ++c) {
        if ((columns >> c & 1u) == 0) continue;
        const auto at = bytes.data() + r * stride() + c * element();
        const auto column = static_cast<std::size_t>(c);
        const std::int32_t sum = sums[static_cast<std::size_t>(r * kBlockColumns + c)];
        volatile float y = static_cast<float>(sum);  // volatile: rounded after each operation
        y = y * row_scale[static_cast<std::size_t>(r)];
        y = y * col_scale[column];
        y = y + bias[column];
        float old = 0.0f;
        std::memcpy(&old, at, static_cast<std::size_t>(element()));
        if (key.out == OutKind::kF32Add) y = y + old;
        const float result = y;
        const std::uint16_t half = to_bf16(result);
        if (key.out == OutKind::kInt32)
          std::memcpy(at, &sum, 4);
        else if (key.out == OutKind::kBf16)
          std::memcpy(at, &half, 2);
        else
          std::memcpy(at, &result, 4);
      }
    return bytes;
  }

  void run() {
    const Avx2Kernel generated(key);
    GuardedArray<std::int32_t> acc(static_cast<std::size_t>(key.rows * kBlockColumns));
    GuardedArray<std::int32_t> row_init(key.rows);
    BlockArgs args{};
    args.acc = acc.data();
    args.row_init = row_init.data();
    args.finish = {sums.data(), out.data(), stride(), row_scale.data(), col_scale.data(), bias.data(), rows, columns};
    generated.getCode<BlockFn>()(&args);
    for (std::int32_t sum : acc) ASSERT_EQ(sum, 0);
  }

  BlockKey key;
  int rows;
  std::uint32_t columns;
  GuardedArray<std::int32_t> sums{static_cast<std::size_t>(rows * kBlockColumns)};
  GuardedArray<float> row_scale{static_cast<std::size_t>(rows)};
  GuardedArray<float> col_scale{16u * key.panels}, bias{16u * key.panels};
  GuardedArray<std::uint8_t> out{static_cast<std::size_t>(
      key.stream ? rows * stride() : std::max<std::int64_t>((rows - 1) * stride() + width() * element(), 0))};
};

void expect_finish(const BlockKey& key, int rows, std::uint32_t columns, std::uint32_t seed) {
  Finish finish(key, rows, columns, seed);
  const std::vector<std::uint8_t> expected = finish.expected();
  ASSERT_NO_FATAL_FAILURE(finish.run());
  for (std::size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(finish.out[i], expected[i])
        << block_name(key) << " rows " << rows << " columns " << columns << " byte " << i;
}

TEST_P(Avx2KernelTest, FinishHasCanonicalBitsAndStaysInside) {
  std::uint32_t seed = 0;
  for (OutKind out : {OutKind::kInt32, OutKind::kF32, OutKind::kF32Add, OutKind::kBf16})
    for (int panels : {1, 2})
      for (int rows = 0; rows <= kAvx2Rows; ++rows) {
        BlockKey key{GetParam(), std::uint8_t{kAvx2Rows}, static_cast<std::uint8_t>(panels), out};
        const std::uint32_t all = panels == 2 ? 0xffffffffu : 0xffffu;
        ASSERT_NO_FATAL_FAILURE(expect_finish(key, rows, all, ++seed));
        key.stream = panels == 2 && (out == OutKind::kF32 || out == OutKind::kBf16);
        ASSERT_NO_FATAL_FAILURE(expect_finish(key, rows, all, ++seed));
        key.stream = false;
        key.masked = true;
        for (int columns = 1; columns <= 16 * panels; ++columns)
          ASSERT_NO_FATAL_FAILURE(expect_finish(key, rows, all >> (16 * panels - columns), ++seed));
        ASSERT_NO_FATAL_FAILURE(expect_finish(key, rows, 0x5a3c9669u & all, ++seed));
      }
}

INSTANTIATE_TEST_SUITE_P(Isa, Avx2KernelTest, ::testing::Values(IsaLevel::kAvx2, IsaLevel::kAvxVnni),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

TEST(Avx2Form, NarrowCodesStayLongerIn16Bits) {
  const auto form = [](int a, int b) {
    const Avx2Form f = avx2_form(a, b);
    return std::pair<int, int>(f.b_offset, f.widen_every);
  };
  EXPECT_EQ(form(127, 127), std::pair(0, 1));
  EXPECT_EQ(form(98, 98), std::pair(0, 1));
  EXPECT_EQ(form(127, 63), std::pair(64, 1));
  EXPECT_EQ(form(63, 63), std::pair(64, 2));
  EXPECT_EQ(form(98, 7), std::pair(8, 8));
  EXPECT_EQ(form(7, 7), std::pair(8, 16));
  EXPECT_EQ(avx2_form(63, 63).rows, kAvx2PairRows);
  EXPECT_EQ(avx2_form(98, 7).rows, kAvx2Rows);
}

TEST(Avx2Form, SumsOf16BitsNeverSaturate) {
  for (int a = 0; a <= 127; ++a)
    for (int b = 0; b <= 127; ++b) {
      const Avx2Form form = avx2_form(a, b);
      const int unsigned_b = form.b_offset == 0 ? b : b + form.b_offset;
      EXPECT_LE(unsigned_b * a * 2 * form.widen_every, 32767) << a << " x " << b;
      EXPECT_GE(form.b_offset == 0 ? b : form.b_offset, b);
    }
}

}  // namespace
}  // namespace tessera::kernels::jit
