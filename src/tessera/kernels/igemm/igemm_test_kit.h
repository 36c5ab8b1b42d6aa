#pragma once
// Shared by the tests of igemm: chosen shapes, random problems with their INT64 products, and the canonical epilogue.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/aligned_buffer.h"
#include "tessera/kernels/igemm/igemm.h"

namespace tessera::kernels::testing {

struct Shape {
  std::int64_t m, n, k;
};

/// Codes of both operands, their product, and both operands as igemm takes them.
class Problem {
 public:
  /// Random codes in -limit..limit; with `extreme` only the two limits.
  Problem(Shape shape, int a_limit, int b_limit, std::uint32_t seed, bool extreme = false)
      : shape_(shape),
        a_limit_(a_limit),
        b_limit_(b_limit),
        a_stride_(igemm_a_stride(shape.k)),
        a_(static_cast<std::size_t>(shape.m * a_stride_)),
        panels_(static_cast<std::size_t>(igemm_packed_b_bytes(shape.n, shape.k))),
        b_(static_cast<std::size_t>(shape.n * shape.k)),
        product_(static_cast<std::size_t>(shape.m * shape.n)) {
    std::mt19937 random(seed);
    const auto code = [&](int limit) {
      if (extreme) return static_cast<std::int8_t>(random() % 4 != 0 ? limit : -limit);
      return static_cast<std::int8_t>(static_cast<int>(random() % (2 * static_cast<unsigned>(limit) + 1)) - limit);
    };
    std::fill_n(a_.data(), a_.size(), std::int8_t{0});
    for (std::int64_t m = 0; m < shape.m; ++m)
      for (std::int64_t k = 0; k < shape.k; ++k) a_[static_cast<std::size_t>(m * a_stride_ + k)] = code(a_limit);
    for (std::int8_t& c : b_) c = code(b_limit);
    igemm_pack_b({.codes = b_.data(), .row_bytes = shape.k}, packed(), IsaSet{});
    for (std::int64_t m = 0; m < shape.m; ++m)
      for (std::int64_t n = 0; n < shape.n; ++n) product_[static_cast<std::size_t>(m * shape.n + n)] = dot(m, n);
  }

  PackedB packed() { return {panels_.data(), shape_.n, shape_.k, b_limit_}; }
  IgemmParams params() {
    IgemmParams p;
    p.m = shape_.m;
    p.a = a_.data();
    p.a_stride = a_stride_;
    p.a_limit = a_limit_;
    p.b = packed();
    return p;
  }
  std::int64_t product(std::int64_t m, std::int64_t n) const {
    return product_[static_cast<std::size_t>(m * shape_.n + n)];
  }
  const AlignedBuffer<std::int8_t>& a() const { return a_; }
  const AlignedBuffer<std::int8_t>& panels() const { return panels_; }

 private:
  std::int64_t dot(std::int64_t m, std::int64_t n) const {
    const std::int8_t *a = a_.data() + m * a_stride_, *b = b_.data() + n * shape_.k;
    std::int64_t sum = 0;
    for (std::int64_t k = 0; k < shape_.k; ++k) sum += a[k] * b[k];
    return sum;
  }

  Shape shape_;
  std::int32_t a_limit_, b_limit_;
  std::int64_t a_stride_;
  AlignedBuffer<std::int8_t> a_, panels_;
  std::vector<std::int8_t> b_;
  std::vector<std::int64_t> product_;
};

inline std::string describe(Shape s) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
}

}  // namespace tessera::kernels::testing
