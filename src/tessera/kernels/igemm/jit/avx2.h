#pragma once
// Micro-kernel of up to 6 rows x 32 columns for CPUs without AVX-512: on vpdpbusd of 256 bits (AVX-VNNI), or on
// vpmaddubsw (AVX2).
//
// 16 registers hold the sums of 6 x 16, so that a block is two passes, one per panel. Both instructions multiply
// unsigned by signed bytes; the sums of vpmaddubsw saturate at 16 bits, so the limits of the codes decide its form:
//
//   signed   |b| * (a with b's sign), widened to INT32 at once: 4 instructions per product of 8 x 4 codes. Any codes.
//   offset   (b + offset) * a, with row_init = -offset * sum_k a[r,k] as for vpdpbusd, and n neighbors in k added in
//            16 bits before they are widened: 2 + 1/n instructions (3 where n is 1).
#include "tessera/kernels/igemm/jit/avx2_finish.h"

namespace tessera::kernels::jit {

inline constexpr int kAvx2Rows = 6;
inline constexpr int kAvx2PairRows = 5;  ///< where two neighbors in k are added in 16 bits

/// `key.isa` is kAvx2, with the fields of an Avx2Form, or kAvxVnni, which has one form: 128 as the offset.
class Avx2Kernel : public Generator {
 public:
  explicit Avx2Kernel(const BlockKey& key);

 private:
  void generate();
  void load_rows();
  void start_sums();
  void step();
  void step_vnni();
  void step_signed();
  void step_offset();
  void step_offset_pairs();
  void step_narrow();
  void widen_narrow();
  void load_panel(const Xbyak::Ymm& to, int half, const Xbyak::Operand& b_offset);
  void store_sums();
  void constants();
  bool sums_in_memory() const { return key_.isa == IsaLevel::kAvx2 && key_.widen_every > 2; }
  Xbyak::Ymm sum(int row, int half) const { return Xbyak::Ymm(4 + 2 * row + half); }
  Xbyak::Address row_code(int row, int offset);
  Xbyak::Address sum_address(int row, int half);

  BlockKey key_;
  Xbyak::Label ones_, offset_;
};

/// `void(const RowSumArgs*)` on AVX2: out[r] = -offset * sum_k a[r,k], what sums with that offset start from.
/// `offset` is at most 128, and 128 for kAvxVnni.
class Avx2RowSumKernel : public Generator {
 public:
  explicit Avx2RowSumKernel(int offset);
};

}  // namespace tessera::kernels::jit
