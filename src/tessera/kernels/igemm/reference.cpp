#include "tessera/kernels/igemm/reference.h"

#include <algorithm>

#include "tessera/base/int4.h"
#include "tessera/base/parallel.h"

namespace tessera::kernels {
namespace {

constexpr int kColumns = 16;

// One row times one panel. The inner loops have fixed bounds, so that compilers vectorize them.
void row_times_panel(const std::int8_t* a, const std::int8_t* panel, std::int64_t k, std::int32_t* acc) {
  std::fill_n(acc, kColumns, 0);
  for (std::int64_t d = 0; d < k; d += 4) {
    for (int j = 0; j < kColumns; ++j) {
      const std::int8_t* b = panel + d * kColumns + 4 * j;
      acc[j] += a[d] * b[0] + a[d + 1] * b[1] + a[d + 2] * b[2] + a[d + 3] * b[3];
    }
  }
}

float scaled(const IgemmParams& p, std::int32_t acc, std::int64_t m, std::int64_t n) {
  float y = static_cast<float>(acc);
  if (p.row_scale != nullptr) y = y * p.row_scale[m];
  if (p.col_scale != nullptr) y = y * p.col_scale[n];
  if (p.bias != nullptr) y = y + p.bias[n];
  return y;
}

void store(const IgemmParams& p, std::int32_t acc, std::int64_t m, std::int64_t n) {
  const std::int64_t at = m * p.out.stride + n;
  if (p.acc_out != nullptr) {
    p.acc_out[at] = acc;
  } else if (p.out.type == FloatType::kBf16) {
    static_cast<std::uint16_t*>(p.out.data)[at] = to_bf16(scaled(p, acc, m, n));
  } else {
    float& out = static_cast<float*>(p.out.data)[at];
    out = p.accumulate ? scaled(p, acc, m, n) + out : scaled(p, acc, m, n);
  }
}

}  // namespace

void igemm_reference(const IgemmParams& p) {
  const std::int64_t padded_k = (p.b.k + 63) / 64 * 64;
  parallel_for(0, p.m, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n0 = 0; n0 < p.b.n; n0 += kColumns) {
      const std::int8_t* panel = p.b.panels + n0 * padded_k;
      const std::int64_t columns = std::min<std::int64_t>(kColumns, p.b.n - n0);
      for (std::int64_t m = begin; m < end; ++m) {
        std::int32_t acc[kColumns];
        row_times_panel(p.a + m * p.a_stride, panel, padded_k, acc);
        for (std::int64_t j = 0; j < columns; ++j) store(p, acc[j], m, n0 + j);
      }
    }
  });
}

void pack_b_reference(const PackSource& source, const PackedB& b) {
  const std::int64_t padded_k = (b.k + 63) / 64 * 64;
  const auto code = [&](std::int64_t n, std::int64_t k) -> std::int8_t {
    if (n >= b.n || k >= b.k) return 0;
    const std::int64_t row = source.transposed ? k : n, column = source.transposed ? n : k;
    if (source.int4_packed != nullptr) return int4_get(source.int4_packed + row * source.row_bytes, column);
    return source.codes[row * source.row_bytes + column];
  };
  parallel_for(0, (b.n + kColumns - 1) / kColumns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      std::int8_t* panel = b.panels + p * kColumns * padded_k;
      for (std::int64_t k = 0; k < padded_k; ++k)
        for (int j = 0; j < kColumns; ++j) panel[(k / 4 * kColumns + j) * 4 + k % 4] = code(p * kColumns + j, k);
    }
  });
}

}  // namespace tessera::kernels
