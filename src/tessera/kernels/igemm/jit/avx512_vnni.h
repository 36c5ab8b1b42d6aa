#pragma once
// Micro-kernels on vpdpbusd (AVX-512 VNNI): plain, of up to 12 rows x 32 columns, and mixed, of 10 x 32.
//
// vpdpbusd multiplies unsigned by signed bytes: panel codes become code + 128 by a sign flip, the left operand is
// broadcast as it is, so the sums come out as  acc + 128 * sum_k a[r,k];  row_init starts them at minus that.
// 12 x 32: 24 accumulators; per four k, 24 products share the two ports of 512-bit arithmetic, 14 loads the two load
// ports. Flips on load would take 2 more of the former, so the driver flips panels that serve several blocks.
//
// Mixed, for codes with |a| + |b| <= 127: Winograd's inner product (1968), a1 b1 + a2 b2 =
//   (a1 + (b2 + 128)) (a2 + b1) - a2 (a1 + 128) - b1 (b2 + 128)
// takes one product of four bytes and two byte additions for eight codes of depth. Of every twelve codes eight go this
// way and four the plain one, so that CPUs which add on other ports than they multiply (AMD's) keep both busy: 2
// products and 2 additions a cycle for 12 codes, 1.5 times the plain rate. Panels come with b2 and the plain codes as
// code + 128, b1 as it is (MixPanelKernel); corrections per row and column start the sums. Depths beyond the last
// whole 192 codes are plain.
#include "tessera/kernels/igemm/jit/finish.h"

namespace tessera::kernels::jit {

//
// The plain kernel also multiplies bf16 numbers (vdpbf16ps): a pair of them takes the place of four codes, sums are f32.
inline constexpr int kVnniRows = 12;
inline constexpr int kMixedRows = 10;
inline constexpr int kMixedSteps = 3;  ///< steps of 64 codes after which roles repeat: sixteen groups of twelve codes

class Avx512VnniKernel : public Generator {
 public:
  explicit Avx512VnniKernel(const BlockKey& key);

 private:
  void generate();
  void load_pointers();
  void start_sums();
  void step_loops();
  void step();
  void mixed_quarter();
  void mixed_group(int offset_a, int offset_b);
  void advance(int codes);
  Xbyak::Address panel_codes(int panel, int offset);
  void load_panel(int panel, int offset);
  void store_sums();
  Xbyak::Zmm sum(int row, int panel) const { return Xbyak::Zmm(8 + 2 * row + panel); }
  Xbyak::Address row_code(int row, int offset);

  BlockKey key_;
};

/// `void(const RowSumArgs*)`: what the sums above start from, modulo 2^32: out[r] = -128 * sum_k a[r,k], or for mixed
/// kernels the same over plain codes, minus sum a2 (a1 + 128).
class RowSumKernel : public Generator {
 public:
  explicit RowSumKernel(bool mixed);

 private:
  void masks();
  void mixed_steps();
  void plain_steps();
};

/// `void(const MixPanelArgs*)`: a panel for mixed kernels, and col_init[c] = -sum b1 (b2 + 128).
class MixPanelKernel : public Generator {
 public:
  MixPanelKernel();
};

}  // namespace tessera::kernels::jit
