#pragma once
// Emits the fused epilogue in AVX2: the bits of FinishEmitter in finish.h, row by row, after a kernel's products.
#include "tessera/kernels/igemm/jit/block.h"
#include "tessera/kernels/igemm/jit/generator.h"

namespace tessera::kernels::jit {

/// Uses all ymm, r8, r9, r11, r12, r13, rbx, rbp from load() on. Rounds to bf16 by integers only.
class Avx2FinishEmitter {
 public:
  Avx2FinishEmitter(Generator& g, const BlockKey& key) : g_(g), key_(key) {}

  /// Read FinishArgs from [args + offset of finish]: pointers, column scales, masks.
  void load(const Xbyak::Reg64& args);
  /// Finish all rows.
  void rest();
  /// Emit the constants; call once, after the code.
  void constants();

 private:
  void row();
  void scale(int part);
  void store_f32(int part);
  void store_bf16(int panel);
  void store_bf16_masked(int panel);
  void round_to_bf16(const Xbyak::Ymm& value);
  int parts() const { return 2 * key_.panels; }  // eight columns each
  Xbyak::Ymm mask(int part) const { return Xbyak::Ymm(4 + part); }
  Xbyak::Ymm value(int part) const { return Xbyak::Ymm(9 + part % 2); }

  Generator& g_;
  BlockKey key_;
  Xbyak::Label one_, half_, exponent_, sign_, quiet_, shifts_;
};

}  // namespace tessera::kernels::jit
