#include "tessera/kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tessera/base/testing/float_matrix.h"
#include "tessera/base/testing/random.h"
#include "tessera/base/testing/thread_backend.h"
#include "tessera/kernels/testing/for_each_simd_target.h"

namespace tessera::kernels {
namespace {

using tessera::testing::normal_values;
using Doubles = std::vector<double>;

constexpr double kEps = 0x1p-24;

std::size_t size_of(std::int64_t n) { return static_cast<std::size_t>(n); }

// Values as a tensor of either type.
struct Values {
  Values(std::size_t n, FloatType type) : type(type), f32(n), bf16(n) {}
  Values(const std::vector<float>& from, FloatType type) : Values(from.size(), type) {
    for (std::size_t i = 0; i < from.size(); ++i) f32[i] = from[i], bf16[i] = tessera::testing::bf16_bits(from[i]);
  }
  void* data() { return type == FloatType::kF32 ? static_cast<void*>(f32.data()) : bf16.data(); }
  const void* data() const { return const_cast<Values*>(this)->data(); }
  double operator[](std::size_t i) const {
    return static_cast<double>(type == FloatType::kF32 ? f32[i] : from_bf16(bf16[i]));
  }
  bool operator==(const Values& other) const { return f32 == other.f32 && bf16 == other.bf16; }

  FloatType type;
  std::vector<float> f32;
  std::vector<std::uint16_t> bf16;
};

struct Outcome {
  Values o, dqkv;
  std::vector<float> lse;
};

struct Case {
  AttentionShape shape;
  FloatType type;
  float scale;
  Values qkv, d_o;

  Case(const AttentionShape& s, FloatType type)
      : shape(s),
        type(type),
        scale(1 / std::sqrt(static_cast<float>(s.head_size))),
        qkv(normal_values(size_of(s.batch * s.tokens * s.qkv_stride()), 1), type),
        d_o(normal_values(size_of(s.batch * s.tokens * s.o_stride()), 2), type) {}

  Outcome run(IsaSet isa) const {
    Outcome r{Values(d_o.f32.size(), type), Values(qkv.f32.size(), type),
              std::vector<float>(size_of(shape.batch * shape.heads * shape.tokens))};
    attention({shape, type, scale, qkv.data(), r.o.data(), r.lse.data()}, isa);
    attention_backward({shape, type, scale, qkv.data(), r.o.data(), r.lse.data(), d_o.data(), r.dqkv.data()}, isa);
    return r;
  }
};

// A sum in f64 and the sum of its terms' magnitudes, which its error is a multiple of.
struct Sum {
  double value = 0, size = 0;
  void add(double term, double magnitude) { value += term, size += magnitude; }
};
using Sums = std::vector<Sum>;

// The header's formulas of one head, written from the softmax matrix.
struct Oracle {
  Sums o, dq, dk, dv;
  Doubles lse;
  double largest_score = 0;  // of magnitudes

  Oracle(const Case& c, std::int64_t head) {
    const AttentionShape& s = c.shape;
    const std::size_t tokens = size_of(s.tokens), n = size_of(s.head_size);
    const std::int64_t batch = head / s.heads, h = head % s.heads;
    Doubles q, k, v, d_o;
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      for (std::int64_t i = 0; i < s.head_size; ++i) {
        const std::int64_t at = (batch * s.tokens + t) * s.qkv_stride() + h * s.head_size + i;
        q.push_back(c.qkv[size_of(at)]);
        k.push_back(c.qkv[size_of(at + s.o_stride())]);
        v.push_back(c.qkv[size_of(at + 2 * s.o_stride())]);
        d_o.push_back(c.d_o[size_of((batch * s.tokens + t) * s.o_stride() + h * s.head_size + i)]);
      }
    }
    o.resize(tokens * n), dq.resize(tokens * n), dk.resize(tokens * n), dv.resize(tokens * n), lse.resize(tokens);
    const auto product = [n](const Doubles& x, std::size_t i, const Doubles& y, std::size_t j) {
      Sum sum;
      for (std::size_t e = 0; e < n; ++e) sum.add(x[i * n + e] * y[j * n + e], std::abs(x[i * n + e] * y[j * n + e]));
      return sum;
    };
    const auto scale = static_cast<double>(c.scale);
    for (std::size_t t = 0; t < tokens; ++t) {
      Doubles p;
      double sum = 0;
      for (std::size_t i = 0; i <= t; ++i) {
        const Sum score = product(q, t, k, i);
        largest_score = std::max(largest_score, scale * score.size);
        p.push_back(std::exp(scale * score.value));
        sum += p.back();
      }
      lse[t] = std::log(sum);
      Sum delta;
      for (std::size_t e = 0; e < n; ++e) {
        Sum& out = o[t * n + e];
        for (std::size_t i = 0; i <= t; ++i) out.add(p[i] / sum * v[i * n + e], p[i] / sum * std::abs(v[i * n + e]));
        delta.add(d_o[t * n + e] * out.value, std::abs(d_o[t * n + e]) * out.size);
      }
      for (std::size_t i = 0; i <= t; ++i) {
        const Sum dp = product(d_o, t, v, i);
        const double probability = p[i] / sum, ds = scale * probability * (dp.value - delta.value);
        const double ds_size = scale * probability * (dp.size + delta.size);
        for (std::size_t e = 0; e < n; ++e) {
          const std::size_t row = t * n + e, col = i * n + e;
          dv[col].add(probability * d_o[row], probability * std::abs(d_o[row]));
          dk[col].add(ds * q[row], ds_size * std::abs(q[row]));
          dq[row].add(ds * k[col], ds_size * std::abs(k[col]));
        }
      }
    }
  }
};

void expect_close(const Values& got, std::int64_t first, std::int64_t stride, const Sums& want, std::int64_t n,
                  double relative, double rounding, const char* what) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / n, col = static_cast<std::int64_t>(i) % n;
    ASSERT_NEAR(got[size_of(first + row * stride + col)], want[i].value,
                relative * want[i].size + rounding * std::abs(want[i].value) + 1e-30)
        << what << " " << row << ", " << col;
  }
}

// First order: a probability moves by the error of its score and of lse; sums of up to tokens or head_size terms err
// by eps of their magnitudes for each term. bf16: p or ds is rounded once, o once before delta, results once.
void expect_exact(const Case& c, const Outcome& got) {
  const AttentionShape& s = c.shape;
  const bool bf16 = c.type == FloatType::kBf16;
  for (std::int64_t head = 0; head < s.batch * s.heads; ++head) {
    const Oracle want(c, head);
    const auto depth = static_cast<double>(s.head_size), tokens = static_cast<double>(s.tokens);
    const double score = want.largest_score * (depth + 3) * kEps;
    const double log_sum = score + (tokens + 4) * kEps + kEps * (want.largest_score + std::log(tokens));
    const double relative = score + log_sum + (2 * tokens + depth + 10) * kEps + (bf16 ? 0x1p-8 : 0);
    const double rounding = bf16 ? 0x1p-8 : kEps;
    for (std::int64_t t = 0; t < s.tokens; ++t)
      ASSERT_NEAR(static_cast<double>(got.lse[size_of(head * s.tokens + t)]), want.lse[size_of(t)], log_sum) << t;
    const std::int64_t batch = head / s.heads, column = head % s.heads * s.head_size;
    const std::int64_t qkv = batch * s.tokens * s.qkv_stride() + column;
    expect_close(got.o, batch * s.tokens * s.o_stride() + column, s.o_stride(), want.o, s.head_size, relative, rounding,
                 "o");
    const Sums* parts[] = {&want.dq, &want.dk, &want.dv};
    const char* const names[] = {"dq", "dk", "dv"};
    for (std::int64_t part = 0; part < 3; ++part)
      expect_close(got.dqkv, qkv + part * s.o_stride(), s.qkv_stride(), *parts[part], s.head_size, relative, rounding,
                   names[part]);
  }
}

const std::vector<AttentionShape>& shapes() {
  static const std::vector<AttentionShape> all = [] {
    std::vector<AttentionShape> shapes;
    std::int64_t heads = 0;
    for (std::int64_t tokens : {1, 2, 17, 64, 96, 100, 257})
      for (std::int64_t head_size : {16, 32, 48, 64, 128})
        shapes.push_back({1 + tokens % 2, tokens, 1 + heads++ % 3, head_size});
    return shapes;
  }();
  return all;
}

void expect_exact_on(IsaSet isa) {
  for (const AttentionShape& shape : shapes()) {
    for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
      SCOPED_TRACE(::testing::Message() << shape.batch << " x " << shape.tokens << " x " << shape.heads << " x "
                                        << shape.head_size << (type == FloatType::kF32 ? " f32" : " bf16"));
      const Case c(shape, type);
      expect_exact(c, c.run(isa));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(Attention, EqualsDouble) {
  testing::for_each_simd_target([](IsaSet isa) { expect_exact_on(isa); });
}

TEST(Attention, ReferenceEqualsDouble) { expect_exact_on(IsaSet{}); }

TEST(Attention, LargeScoresDoNotOverflow) {
  Case c({1, 100, 1, 64}, FloatType::kF32);
  for (float& x : c.qkv.f32) x *= 30;
  const Outcome got = c.run(enabled_isa());
  for (std::size_t i = 0; i < got.dqkv.f32.size(); ++i) ASSERT_TRUE(std::isfinite(got.dqkv.f32[i])) << i;
  for (std::size_t i = 0; i < got.o.f32.size(); ++i) ASSERT_TRUE(std::isfinite(got.o.f32[i])) << i;
}

TEST(Attention, NotFiniteStaysInItsHead) {
  Case c({1, 40, 2, 32}, FloatType::kF32);
  const Outcome good = c.run(enabled_isa());
  c.qkv.f32[size_of(30 * c.shape.qkv_stride() + 5)] = NAN;  // query 30 of head 0
  const Outcome got = c.run(enabled_isa());
  for (std::size_t i = 0; i < got.o.f32.size(); ++i) {
    const std::size_t row = i / 64, head = i / 32 % 2;
    if (row == 30 && head == 0) {
      EXPECT_TRUE(std::isnan(got.o.f32[i]));
    } else {
      EXPECT_EQ(got.o.f32[i], good.o.f32[i]) << row;
    }
  }
}

TEST(Attention, ThreadsDoNotMatter) {
  for (FloatType type : {FloatType::kF32, FloatType::kBf16}) {
    const Case c({2, 257, 3, 64}, type);
    const Outcome one = c.run(enabled_isa());
    for (int threads : {2, 3, 5}) {
      const tessera::testing::ThreadBackend backend(threads);
      const Outcome several = c.run(enabled_isa());
      EXPECT_EQ(several.o, one.o);
      EXPECT_EQ(several.dqkv, one.dqkv);
      EXPECT_EQ(several.lse, one.lse);
    }
  }
}

TEST(Attention, SupportsMultiplesOf16) {
  EXPECT_TRUE(attention_supported({1, 1, 1, 16}));
  EXPECT_TRUE(attention_supported({4, 1024, 12, 128}));
  for (std::int64_t head_size : {0, 8, 24, 144}) EXPECT_FALSE(attention_supported({1, 8, 1, head_size}));
  EXPECT_FALSE(attention_supported({0, 8, 1, 16}));
  EXPECT_FALSE(attention_supported({1, 0, 1, 16}));
}

}  // namespace
}  // namespace tessera::kernels
