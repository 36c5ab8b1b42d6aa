#include "tessera/kernels/attention/jit/avx512_tile.h"

#include <cstddef>

namespace tessera::kernels::jit {

using namespace Xbyak;  // NOLINT(google-build-using-namespace): operand names of the generator

namespace {

constexpr int kRows = static_cast<int>(kTileRows), kUnroll = 4;

std::string tile_name(bool turned, bool bf16_pairs) {
  return std::string("attention_tile") + (bf16_pairs ? "_bf16" : "_f32") + (turned ? "_turned" : "");
}

}  // namespace

// Registers: rdi arguments; rax, rcx, r8, r9 rows 0, 3, 6, 9 of a (turned: rax alone), rdx its stride, r13 three
// times that; rsi b, r10 its stride, r12 three times that; r11 steps; rbx row of c, rbp its stride. zmm0, zmm1 b,
// zmm2..zmm5 broadcasts, zmm8..zmm31 sums.
Avx512TileKernel::Avx512TileKernel(bool turned, bool bf16_pairs)
    : Generator(tile_name(turned, bf16_pairs)), turned_(turned), bf16_pairs_(bf16_pairs) {
  Label several, single, done;
  enter();
  load_pointers();
  start_sums();
  cmp(r11, kUnroll);
  jl(single, T_NEAR);
  align(64);
  L(several);
  steps(kUnroll);
  sub(r11, kUnroll);
  cmp(r11, kUnroll);
  jge(several, T_NEAR);
  L(single);
  test(r11, r11);
  jz(done, T_NEAR);
  steps(1);
  dec(r11);
  jmp(single, T_NEAR);
  L(done);
  store_sums();
  leave();
  freeze();
}

void Avx512TileKernel::load_pointers() {
  mov(rdx, ptr[rdi + offsetof(TileArgs, a_stride)]);
  lea(r13, ptr[rdx + rdx * 2]);
  mov(rax, ptr[rdi + offsetof(TileArgs, a)]);
  lea(rcx, ptr[rax + r13]);
  lea(r8, ptr[rcx + r13]);
  lea(r9, ptr[r8 + r13]);
  mov(rsi, ptr[rdi + offsetof(TileArgs, b)]);
  mov(r10, ptr[rdi + offsetof(TileArgs, b_stride)]);
  lea(r12, ptr[r10 + r10 * 2]);
  mov(r11, ptr[rdi + offsetof(TileArgs, steps)]);
  mov(rbp, ptr[rdi + offsetof(TileArgs, c_stride)]);
}

void Avx512TileKernel::start_sums() {
  Label zero, ready;
  cmp(qword[rdi + offsetof(TileArgs, add)], 0);
  jz(zero, T_NEAR);
  mov(rbx, ptr[rdi + offsetof(TileArgs, c)]);
  for (int r = 0; r < kRows; ++r) {
    for (int half = 0; half < 2; ++half) vmovups(sum(r, half), ptr[rbx + 64 * half]);
    add(rbx, rbp);
  }
  jmp(ready, T_NEAR);
  L(zero);
  for (int r = 0; r < kRows; ++r)
    for (int half = 0; half < 2; ++half) vpxord(sum(r, half), sum(r, half), sum(r, half));
  L(ready);
}

Address Avx512TileKernel::a_word(int row, int step) {
  if (turned_) {
    if (step == 3) return ptr[rax + r13 + 4 * row];
    return step == 0 ? ptr[rax + 4 * row] : ptr[rax + rdx * step + 4 * row];
  }
  const Reg64 bases[] = {rax, rcx, r8, r9};
  const Reg64 base = bases[row / 3];
  return row % 3 == 0 ? ptr[base + 4 * step] : ptr[base + rdx * (row % 3) + 4 * step];
}

void Avx512TileKernel::steps(int count) {
  for (int step = 0; step < count; ++step) {
    for (int half = 0; half < 2; ++half) {
      const int offset = 64 * half;
      if (step == 0) vmovups(Zmm(half), ptr[rsi + offset]);
      if (step == 1 || step == 2) vmovups(Zmm(half), ptr[rsi + r10 * step + offset]);
      if (step == 3) vmovups(Zmm(half), ptr[rsi + r12 + offset]);
    }
    for (int r = 0; r < kRows; ++r) {
      const Zmm word(2 + r % 4);
      vbroadcastss(word, a_word(r, step));
      for (int half = 0; half < 2; ++half) {
        if (bf16_pairs_) {
          vdpbf16ps(sum(r, half), word, Zmm(half));
        } else {
          vfmadd231ps(sum(r, half), word, Zmm(half));
        }
      }
    }
  }
  if (turned_) {
    count == 1 ? add(rax, rdx) : lea(rax, ptr[rax + rdx * count]);
  } else {
    for (const Reg64& base : {rax, rcx, r8, r9}) add(base, 4 * count);
  }
  count == 1 ? add(rsi, r10) : lea(rsi, ptr[rsi + r10 * count]);
}

void Avx512TileKernel::store_sums() {
  mov(rbx, ptr[rdi + offsetof(TileArgs, c)]);
  for (int r = 0; r < kRows; ++r) {
    for (int half = 0; half < 2; ++half) vmovups(ptr[rbx + 64 * half], sum(r, half));
    add(rbx, rbp);
  }
}

}  // namespace tessera::kernels::jit
