#pragma once
// Emits the fused epilogue for AVX-512 kernels, row by row, so that a kernel can place rows among its products.
//
//   y = ((float(acc) * row_scale) * col_scale) + bias, each operation rounded to fp32, never fused;
//   then y, or y + out, or bf16(y) with denormals to signed zero, or acc itself
#include "tessera/kernels/igemm/jit/block.h"
#include "tessera/kernels/igemm/jit/generator.h"

namespace tessera::kernels::jit {

/// Uses zmm0..zmm7, k1..k4, r11, r12, r13, rbx, rbp from load() on.
class FinishEmitter {
 public:
  FinishEmitter(Generator& g, const BlockKey& key) : g_(g), key_(key) {}

  /// Read FinishArgs from [args + offset of finish]: pointers, column scales, bias, masks.
  void load(const Xbyak::Reg64& args);
  /// Finish the next `count` rows and move on.
  void rows(int count);
  /// Finish all rows that are left.
  void rest();
  /// Rows left to finish.
  const Xbyak::Reg64& rows_left() const { return g_.r13; }
  /// Emit the constants; call once, after the code.
  void constants();

 private:
  void row(int r);
  void store_f32(int r);
  void store_bf16();
  void round_to_bf16(const Xbyak::Zmm& value, const Xbyak::Zmm& temp, const Xbyak::Zmm& temp2);
  Xbyak::Zmm value(int panel) const { return Xbyak::Zmm(4 + panel); }

  Generator& g_;
  BlockKey key_;
  Xbyak::Label one_, half_, exponent_, sign_, quiet_;
};

}  // namespace tessera::kernels::jit
