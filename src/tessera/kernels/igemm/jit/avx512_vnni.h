#pragma once
// Micro-kernel of up to 12 rows x 32 columns on vpdpbusd (AVX-512 VNNI).
//
// vpdpbusd multiplies unsigned by signed bytes: panel codes become code + 128 by a sign flip, the left operand is
// broadcast as it is, so the sums come out as  acc + 128 * sum_k a[r,k];  row_init starts them at minus that.
// 12 x 32: 24 accumulators; per four k, 24 products share the two ports of 512-bit arithmetic, 14 loads the two load
// ports. Flips on load would take 2 more of the former, so the driver flips panels that serve several blocks.
#include "tessera/kernels/igemm/jit/finish.h"

namespace tessera::kernels::jit {

inline constexpr int kVnniRows = 12;

class Avx512VnniKernel : public Generator {
 public:
  explicit Avx512VnniKernel(const BlockKey& key);

 private:
  void generate();
  void load_pointers();
  void start_sums();
  void step();
  void load_panel(int panel, int offset);
  void store_sums();
  Xbyak::Zmm sum(int row, int panel) const { return Xbyak::Zmm(8 + 2 * row + panel); }
  Xbyak::Address row_code(int row, int offset);

  BlockKey key_;
};

/// `void(const RowSumArgs*)`: out[r] = -128 * sum_k a[r,k] modulo 2^32, what the sums above start from.
class RowSumKernel : public Generator {
 public:
  RowSumKernel();
};

}  // namespace tessera::kernels::jit
