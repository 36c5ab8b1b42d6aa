#include "tessera/kernels/igemm/reference.h"

#include <algorithm>

#include "tessera/base/int4.h"
#include "tessera/base/parallel.h"

namespace tessera::kernels {
namespace {

constexpr int kColumns = 16, kDepth = 64, kRows = 32;

// 64 codes of depth of a panel, column by column: [16][64].
void take_columns(const std::int8_t* panel, std::int16_t* columns) {
  for (int j = 0; j < kColumns; ++j)
    for (int k = 0; k < kDepth; ++k) columns[j * kDepth + k] = panel[(k / 4 * kColumns + j) * 4 + k % 4];
}

// A dot product of 16-bit integers with fixed bounds, which compilers vectorize.
std::int32_t dot(const std::int16_t* a, const std::int16_t* b) {
  std::int32_t sum = 0;
  for (int k = 0; k < kDepth; ++k) sum += a[k] * b[k];
  return sum;
}

void multiply(const std::int8_t* a, const std::int16_t* columns, std::int32_t* acc) {
  std::int16_t row[kDepth];
  std::copy_n(a, kDepth, row);
  for (int j = 0; j < kColumns; ++j) acc[j] += dot(row, columns + j * kDepth);
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
  const std::int64_t padded_k = (p.b.k + kDepth - 1) / kDepth * kDepth;
  const std::int64_t panels = (p.b.n + kColumns - 1) / kColumns;
  parallel_for(0, (p.m + kRows - 1) / kRows * panels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t m0 = block / panels * kRows, n0 = block % panels * kColumns;
      const std::int64_t m1 = std::min(m0 + kRows, p.m), n1 = std::min(n0 + kColumns, p.b.n);
      std::int32_t acc[kRows][kColumns] = {};
      for (std::int64_t k = 0; k < padded_k; k += kDepth) {
        std::int16_t columns[kColumns * kDepth];
        take_columns(p.b.panels + n0 * padded_k + k * kColumns, columns);
        for (std::int64_t m = m0; m < m1; ++m) multiply(p.a + m * p.a_stride + k, columns, acc[m - m0]);
      }
      for (std::int64_t m = m0; m < m1; ++m)
        for (std::int64_t n = n0; n < n1; ++n) store(p, acc[m - m0][n - n0], m, n);
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
