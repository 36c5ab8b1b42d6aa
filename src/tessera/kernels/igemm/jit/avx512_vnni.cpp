#include "tessera/kernels/igemm/jit/avx512_vnni.h"

namespace tessera::kernels::jit {

using namespace Xbyak;  // NOLINT(google-build-using-namespace): operand names of the generator

namespace {
constexpr int kPrefetchBytes = 128;  // of a row, ahead: two steps
}  // namespace

Avx512VnniKernel::Avx512VnniKernel(const BlockKey& key) : Generator(block_name(key)), key_(key) {
  generate();
  freeze();
}

// Registers: rdi arguments; rax, rcx, r8, r9 rows 0, 3, 6, 9 of the left operand, rdx its stride; rsi panel,
// r10 distance to the next panel; r11 steps. zmm0, zmm1 panel codes, zmm2..zmm5 broadcasts, zmm7 sign bits,
// zmm8..zmm31 sums. The finish reuses zmm0..zmm7.
void Avx512VnniKernel::generate() {
  FinishEmitter finish(*this, key_);
  enter();
  load_pointers();
  start_sums();
  Label next, summed;
  test(r11, r11);
  jz(summed, T_NEAR);
  align(64);
  L(next);
  step();
  dec(r11);
  jnz(next, T_NEAR);
  L(summed);
  store_sums();
  finish.load(rdi);
  finish.rest();
  leave();
  finish.constants();
}

void Avx512VnniKernel::load_pointers() {
  const Reg64 bases[] = {rax, rcx, r8, r9};
  mov(rdx, ptr[rdi + offsetof(BlockArgs, a_stride)]);
  mov(rax, ptr[rdi + offsetof(BlockArgs, a)]);
  lea(rbx, ptr[rdx + rdx * 2]);
  for (int i = 1; 3 * i < key_.rows; ++i) lea(bases[i], ptr[bases[i - 1] + rbx]);
  mov(rsi, ptr[rdi + offsetof(BlockArgs, b)]);
  mov(r10, ptr[rdi + offsetof(BlockArgs, panel_bytes)]);
  mov(r11, ptr[rdi + offsetof(BlockArgs, steps)]);
}

Address Avx512VnniKernel::row_code(int row, int offset) {
  const Reg64 bases[] = {rax, rcx, r8, r9};
  const Reg64 base = bases[row / 3];
  if (row % 3 == 0) return ptr[base + offset];
  return ptr[base + rdx * (row % 3) + offset];
}

void Avx512VnniKernel::start_sums() {
  Label from_zero, ready;
  cmp(qword[rdi + offsetof(BlockArgs, load_acc)], 0);
  jz(from_zero, T_NEAR);
  mov(rbx, ptr[rdi + offsetof(BlockArgs, acc)]);
  for (int r = 0; r < key_.rows; ++r)
    for (int p = 0; p < key_.panels; ++p) vmovdqa32(sum(r, p), ptr[rbx + r * 4 * kBlockColumns + 64 * p]);
  jmp(ready, T_NEAR);
  L(from_zero);
  mov(rbx, ptr[rdi + offsetof(BlockArgs, row_init)]);
  for (int r = 0; r < key_.rows; ++r)
    for (int p = 0; p < key_.panels; ++p) vpbroadcastd(sum(r, p), ptr[rbx + 4 * r]);
  L(ready);
  mov(ebx, 0x80808080);
  vpbroadcastd(zmm7, ebx);
}

// 64 codes of depth: sixteen times four.
void Avx512VnniKernel::step() {
  for (int q = 0; q < 16; ++q) {
    for (int p = 0; p < key_.panels; ++p) load_panel(p, 64 * q);
    if (q < key_.rows) prefetcht0(row_code(q, kPrefetchBytes));
    for (int r = 0; r < key_.rows; ++r) {
      const Zmm codes(2 + r % 4);
      vpbroadcastd(codes, row_code(r, 4 * q));
      for (int p = 0; p < key_.panels; ++p) vpdpbusd(sum(r, p), Zmm(p), codes);
    }
  }
  const Reg64 bases[] = {rax, rcx, r8, r9};
  for (int i = 0; 3 * i < key_.rows; ++i) add(bases[i], 64);
  add(rsi, 1024);
}

void Avx512VnniKernel::load_panel(int p, int offset) {
  const Address codes = p == 0 ? ptr[rsi + offset] : ptr[rsi + r10 + offset];
  if (key_.unsigned_b) {
    vmovdqa64(Zmm(p), codes);
  } else {
    vpxord(Zmm(p), zmm7, codes);
  }
}

void Avx512VnniKernel::store_sums() {
  mov(rbx, ptr[rdi + offsetof(BlockArgs, acc)]);
  for (int r = 0; r < key_.rows; ++r)
    for (int p = 0; p < key_.panels; ++p) vmovdqa32(ptr[rbx + r * 4 * kBlockColumns + 64 * p], sum(r, p));
}

// Registers: rdi arguments; rax row, rcx its place, rdx steps left, rsi rows left, r8 result; zmm0 sums, zmm1 128 as
// the unsigned factor.
RowSumKernel::RowSumKernel() : Generator("igemm_row_sums") {
  Label row, step, summed, done;
  mov(rax, ptr[rdi + offsetof(RowSumArgs, a)]);
  mov(rsi, ptr[rdi + offsetof(RowSumArgs, rows)]);
  mov(r8, ptr[rdi + offsetof(RowSumArgs, out)]);
  mov(ecx, 0x80808080);
  vpbroadcastd(zmm1, ecx);
  test(rsi, rsi);
  jz(done, T_NEAR);
  L(row);
  vpxord(zmm0, zmm0, zmm0);
  mov(rcx, rax);
  mov(rdx, ptr[rdi + offsetof(RowSumArgs, steps)]);
  test(rdx, rdx);
  jz(summed, T_NEAR);
  L(step);
  vpdpbusd(zmm0, zmm1, ptr[rcx]);
  add(rcx, 64);
  dec(rdx);
  jnz(step);
  L(summed);
  vextracti64x4(ymm2, zmm0, 1);
  vpaddd(ymm0, ymm0, ymm2);
  vextracti128(xmm2, ymm0, 1);
  vpaddd(xmm0, xmm0, xmm2);
  vpshufd(xmm2, xmm0, 0x4e);
  vpaddd(xmm0, xmm0, xmm2);
  vpshufd(xmm2, xmm0, 0xb1);
  vpaddd(xmm0, xmm0, xmm2);
  vmovd(ecx, xmm0);
  neg(ecx);
  mov(dword[r8], ecx);
  add(r8, 4);
  add(rax, ptr[rdi + offsetof(RowSumArgs, a_stride)]);
  dec(rsi);
  jnz(row, T_NEAR);
  L(done);
  vzeroupper();
  ret();
  freeze();
}

}  // namespace tessera::kernels::jit
