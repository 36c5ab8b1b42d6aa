#pragma once
// TileArgs' product for AVX-512: vfmadd231ps of f32 words, vdpbf16ps of bf16 pairs.
#include "tessera/kernels/attention/tile.h"
#include "tessera/kernels/igemm/jit/generator.h"

namespace tessera::kernels::jit {

class Avx512TileKernel : public Generator {
 public:
  Avx512TileKernel(bool turned, bool bf16_pairs);

 private:
  void load_pointers();
  void start_sums();
  void steps(int count);
  void store_sums();
  Xbyak::Address a_word(int row, int step);
  Xbyak::Zmm sum(int row, int half) { return Xbyak::Zmm(8 + 2 * row + half); }

  bool turned_, bf16_pairs_;
};

}  // namespace tessera::kernels::jit
