// attention as its header says it, row by row in f64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tessera/kernels/attention/attention.h"

namespace tessera::kernels {
namespace {

double read(const void* data, FloatType type, std::int64_t i) {
  return type == FloatType::kF32 ? static_cast<double>(static_cast<const float*>(data)[i])
                                 : static_cast<double>(from_bf16(static_cast<const std::uint16_t*>(data)[i]));
}

void write(void* data, FloatType type, std::int64_t i, double value) {
  if (type == FloatType::kF32) {
    static_cast<float*>(data)[i] = static_cast<float>(value);
  } else {
    static_cast<std::uint16_t*>(data)[i] = to_bf16(static_cast<float>(value));
  }
}

// Rows of one head in a tensor: row t, element c at first + t * stride + c.
struct HeadRows {
  std::int64_t first, stride;
  std::int64_t at(std::int64_t t, std::int64_t c) const { return first + t * stride + c; }
};

HeadRows qkv_rows(const AttentionShape& s, std::int64_t head, std::int64_t part) {
  const std::int64_t stride = s.qkv_stride();
  return {head / s.heads * s.tokens * stride + (part * s.heads + head % s.heads) * s.head_size, stride};
}

HeadRows o_rows(const AttentionShape& s, std::int64_t head) {
  return {head / s.heads * s.tokens * s.o_stride() + head % s.heads * s.head_size, s.o_stride()};
}

std::vector<double> read_rows(const void* data, FloatType type, const HeadRows& rows, const AttentionShape& s) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(s.tokens * s.head_size));
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t c = 0; c < s.head_size; ++c) values.push_back(read(data, type, rows.at(t, c)));
  return values;
}

void write_rows(void* data, FloatType type, const HeadRows& rows, const AttentionShape& s,
                const std::vector<double>& values, double factor) {
  for (std::int64_t t = 0; t < s.tokens; ++t)
    for (std::int64_t c = 0; c < s.head_size; ++c)
      write(data, type, rows.at(t, c), factor * values[static_cast<std::size_t>(t * s.head_size + c)]);
}

double dot(const std::vector<double>& a, std::int64_t i, const std::vector<double>& b, std::int64_t j, std::int64_t n) {
  double sum = 0;
  for (std::int64_t c = 0; c < n; ++c)
    sum += a[static_cast<std::size_t>(i * n + c)] * b[static_cast<std::size_t>(j * n + c)];
  return sum;
}

// to[i] += factor * from[j], rows of n.
void add_row(double factor, const std::vector<double>& from, std::int64_t j, std::vector<double>& to, std::int64_t i,
             std::int64_t n) {
  for (std::int64_t c = 0; c < n; ++c)
    to[static_cast<std::size_t>(i * n + c)] += factor * from[static_cast<std::size_t>(j * n + c)];
}

}  // namespace

void attention_reference(const AttentionParams& p, std::int64_t begin, std::int64_t end) {
  const AttentionShape& s = p.shape;
  const std::int64_t n = s.head_size;
  const auto scale = static_cast<double>(p.scale);
  std::vector<double> score(static_cast<std::size_t>(s.tokens));
  for (std::int64_t head = begin; head < end; ++head) {
    const auto q = read_rows(p.qkv, p.type, qkv_rows(s, head, 0), s);
    const auto k = read_rows(p.qkv, p.type, qkv_rows(s, head, 1), s);
    const auto v = read_rows(p.qkv, p.type, qkv_rows(s, head, 2), s);
    std::vector<double> o(q.size());
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      double max = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t i = 0; i <= t; ++i) {
        score[static_cast<std::size_t>(i)] = scale * dot(q, t, k, i, n);
        max = std::max(max, score[static_cast<std::size_t>(i)]);
      }
      for (std::int64_t i = 0; i <= t; ++i) sum += std::exp(score[static_cast<std::size_t>(i)] - max);
      for (std::int64_t i = 0; i <= t; ++i)
        add_row(std::exp(score[static_cast<std::size_t>(i)] - max) / sum, v, i, o, t, n);
      p.lse[head * s.tokens + t] = static_cast<float>(max + std::log(sum));
    }
    write_rows(p.o, p.type, o_rows(s, head), s, o, 1);
  }
}

void attention_backward_reference(const AttentionBackwardParams& p, std::int64_t begin, std::int64_t end) {
  const AttentionShape& s = p.shape;
  const std::int64_t n = s.head_size;
  const auto scale = static_cast<double>(p.scale);
  for (std::int64_t head = begin; head < end; ++head) {
    const auto q = read_rows(p.qkv, p.type, qkv_rows(s, head, 0), s);
    const auto k = read_rows(p.qkv, p.type, qkv_rows(s, head, 1), s);
    const auto v = read_rows(p.qkv, p.type, qkv_rows(s, head, 2), s);
    const auto o = read_rows(p.o, p.type, o_rows(s, head), s), d_o = read_rows(p.d_o, p.type, o_rows(s, head), s);
    std::vector<double> dq(q.size()), dk(q.size()), dv(q.size());
    for (std::int64_t t = 0; t < s.tokens; ++t) {
      const auto lse = static_cast<double>(p.lse[head * s.tokens + t]);
      const double delta = dot(d_o, t, o, t, n);
      for (std::int64_t i = 0; i <= t; ++i) {
        const double probability = std::exp(scale * dot(q, t, k, i, n) - lse);
        const double ds = probability * (dot(d_o, t, v, i, n) - delta);
        add_row(probability, d_o, t, dv, i, n);
        add_row(ds, q, t, dk, i, n);
        add_row(ds, k, i, dq, t, n);
      }
    }
    write_rows(p.dqkv, p.type, qkv_rows(s, head, 0), s, dq, scale);
    write_rows(p.dqkv, p.type, qkv_rows(s, head, 1), s, dk, scale);
    write_rows(p.dqkv, p.type, qkv_rows(s, head, 2), s, dv, 1);
  }
}

}  // namespace tessera::kernels
