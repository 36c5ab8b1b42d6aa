#include "tessera/kernels/igemm/jit/avx512_vnni.h"

namespace tessera::kernels::jit {

using namespace Xbyak;  // NOLINT(google-build-using-namespace): operand names of the generator

namespace {
constexpr int kPrefetchBytes = 128;  // of a row, ahead: two steps
constexpr int kMixedPrefetchBytes = 192;
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
  step_loops();
  store_sums();
  finish.load(rdi);
  finish.rest();
  leave();
  finish.constants();
}

void Avx512VnniKernel::step_loops() {
  Label mixed, quarter, plain, next, summed;
  if (key_.mixed) {
    cmp(r11, kMixedSteps);
    jl(plain, T_NEAR);
    L(mixed);
    mov(ebx, 4);
    align(64);
    L(quarter);
    mixed_quarter();
    dec(ebx);
    jnz(quarter, T_NEAR);
    sub(r11, kMixedSteps);
    cmp(r11, kMixedSteps);
    jge(mixed, T_NEAR);
  }
  L(plain);
  test(r11, r11);
  jz(summed, T_NEAR);
  align(64);
  L(next);
  step();
  dec(r11);
  jnz(next, T_NEAR);
  L(summed);
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
  if (key_.mixed) {
    mov(rbx, ptr[rdi + offsetof(BlockArgs, col_init)]);
    for (int p = 0; p < key_.panels; ++p) vmovdqa32(Zmm(p), ptr[rbx + 64 * p]);
    for (int r = 0; r < key_.rows; ++r)
      for (int p = 0; p < key_.panels; ++p) vpaddd(sum(r, p), sum(r, p), Zmm(p));
  }
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
      for (int p = 0; p < key_.panels; ++p) {
        if (key_.bf16) {
          vdpbf16ps(sum(r, p), Zmm(p), codes);
        } else {
          vpdpbusd(sum(r, p), Zmm(p), codes);
        }
      }
    }
  }
  advance(64);
}

// A quarter of three steps, 48 codes of depth: four groups of twelve. A longer body would leave the cache of decoded
// instructions, and six instructions a cycle cannot be decoded.
void Avx512VnniKernel::mixed_quarter() {
  for (int group = 0; group < 4; ++group) {
    for (int r = group; r < key_.rows; r += 4) prefetcht0(row_code(r, kMixedPrefetchBytes));
    mixed_group(12 * group, 192 * group);
  }
  advance(48);
}

// A group: b1, b2 and the plain codes of both panels in zmm0..zmm5, a1, a2 and the plain codes of a row in zmm6, zmm7,
// zmm28, sums of codes in zmm29, zmm30; sums of products in zmm8..zmm27.
void Avx512VnniKernel::mixed_group(int offset_a, int offset_b) {
  const auto b = [](int role, int panel) { return Zmm(2 * role + panel); };
  for (int p = 0; p < key_.panels; ++p)
    for (int role = 0; role < 3; ++role) vmovdqa64(b(role, p), panel_codes(p, offset_b + 64 * role));
  const Zmm a1(6), a2(7), plain(28), left(29), right(30);
  for (int r = 0; r < key_.rows; ++r) {
    vpbroadcastd(a1, row_code(r, offset_a));
    vpbroadcastd(a2, row_code(r, offset_a + 4));
    vpbroadcastd(plain, row_code(r, offset_a + 8));
    for (int p = 0; p < key_.panels; ++p) {
      vpaddb(left, a1, b(1, p));
      vpaddb(right, a2, b(0, p));
      vpdpbusd(sum(r, p), b(2, p), plain);
      vpdpbusd(sum(r, p), left, right);
    }
  }
}

void Avx512VnniKernel::advance(int codes) {
  const Reg64 bases[] = {rax, rcx, r8, r9};
  for (int i = 0; 3 * i < key_.rows; ++i) add(bases[i], codes);
  add(rsi, 16 * codes);
}

Address Avx512VnniKernel::panel_codes(int p, int offset) {
  return p == 0 ? ptr[rsi + offset] : ptr[rsi + r10 + offset];
}

void Avx512VnniKernel::load_panel(int p, int offset) {
  if (key_.unsigned_b || key_.mixed || key_.bf16) {
    vmovdqa64(Zmm(p), panel_codes(p, offset));
  } else {
    vpxord(Zmm(p), zmm7, panel_codes(p, offset));
  }
}

void Avx512VnniKernel::store_sums() {
  mov(rbx, ptr[rdi + offsetof(BlockArgs, acc)]);
  for (int r = 0; r < key_.rows; ++r)
    for (int p = 0; p < key_.panels; ++p) vmovdqa32(ptr[rbx + r * 4 * kBlockColumns + 64 * p], sum(r, p));
}

// Registers: rdi arguments; rax row, rcx its place, rdx steps left, rsi rows left, r8 result; zmm0 sums, zmm1 128 as
// the unsigned factor.
RowSumKernel::RowSumKernel(bool mixed) : Generator(mixed ? "igemm_mixed_row_sums" : "igemm_row_sums") {
  Label row, done;
  mov(rax, ptr[rdi + offsetof(RowSumArgs, a)]);
  mov(rsi, ptr[rdi + offsetof(RowSumArgs, rows)]);
  mov(r8, ptr[rdi + offsetof(RowSumArgs, out)]);
  mov(ecx, 0x80808080);
  vpbroadcastd(zmm1, ecx);
  if (mixed) masks();
  test(rsi, rsi);
  jz(done, T_NEAR);
  L(row);
  vpxord(zmm0, zmm0, zmm0);
  mov(rcx, rax);
  mov(rdx, ptr[rdi + offsetof(RowSumArgs, steps)]);
  if (mixed) mixed_steps();
  plain_steps();
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

// k1..k3: words of step 0, 1, 2 that hold a2; k4..k6: that do not hold a1. Word w of 48 has role w % 3.
void RowSumKernel::masks() {
  for (int step = 0; step < kMixedSteps; ++step) {
    std::uint32_t second = 0, not_first = 0;
    for (int word = 0; word < 16; ++word) {
      const int role = (16 * step + word) % 3;
      if (role == 1) second |= 1u << word;
      if (role != 0) not_first |= 1u << word;
    }
    mov(ecx, second);
    kmovw(Opmask(1 + step), ecx);
    mov(ecx, not_first);
    kmovw(Opmask(4 + step), ecx);
  }
}

// The unsigned factor of a word: a1 + 128, from the word before, for a2; 128 for plain codes; 0 for a1.
void RowSumKernel::mixed_steps() {
  Label next, done;
  L(next);
  cmp(rdx, kMixedSteps);
  jl(done, T_NEAR);
  for (int step = 0; step < kMixedSteps; ++step) {
    vmovdqu32(zmm2 | Opmask(1 + step) | T_z, ptr[rcx + 64 * step - 4]);
    vpxord(zmm2 | Opmask(4 + step) | T_z, zmm2, zmm1);
    vpdpbusd(zmm0, zmm2, ptr[rcx + 64 * step]);
  }
  add(rcx, 64 * kMixedSteps);
  sub(rdx, kMixedSteps);
  jmp(next, T_NEAR);
  L(done);
}

void RowSumKernel::plain_steps() {
  Label next, done;
  test(rdx, rdx);
  jz(done, T_NEAR);
  L(next);
  vpdpbusd(zmm0, zmm1, ptr[rcx]);
  add(rcx, 64);
  dec(rdx);
  jnz(next);
  L(done);
}

// Registers: rdi arguments; rsi source, rdx destination, rcx steps left; zmm0 sums, zmm1 sign bits, zmm2..zmm4 codes.
MixPanelKernel::MixPanelKernel() : Generator("igemm_mix_panel") {
  Label mixed, plain, step, done;
  mov(rsi, ptr[rdi + offsetof(MixPanelArgs, from)]);
  mov(rdx, ptr[rdi + offsetof(MixPanelArgs, to)]);
  mov(rcx, ptr[rdi + offsetof(MixPanelArgs, steps)]);
  mov(eax, 0x80808080);
  vpbroadcastd(zmm1, eax);
  vpxord(zmm0, zmm0, zmm0);
  L(mixed);
  cmp(rcx, kMixedSteps);
  jl(plain, T_NEAR);
  for (int group = 0; group < 16; ++group) {
    vmovdqa64(zmm2, ptr[rsi + 192 * group]);
    vpxord(zmm3, zmm1, ptr[rsi + 192 * group + 64]);
    vpxord(zmm4, zmm1, ptr[rsi + 192 * group + 128]);
    vpdpbusd(zmm0, zmm3, zmm2);
    for (int role = 0; role < 3; ++role) vmovdqa64(ptr[rdx + 192 * group + 64 * role], Zmm(2 + role));
  }
  add(rsi, 1024 * kMixedSteps);
  add(rdx, 1024 * kMixedSteps);
  sub(rcx, kMixedSteps);
  jmp(mixed, T_NEAR);
  L(plain);
  shl(rcx, 4);
  jz(done, T_NEAR);
  L(step);
  vpxord(zmm2, zmm1, ptr[rsi]);
  vmovdqa64(ptr[rdx], zmm2);
  add(rsi, 64);
  add(rdx, 64);
  dec(rcx);
  jnz(step);
  L(done);
  vpxord(zmm2, zmm2, zmm2);
  vpsubd(zmm0, zmm2, zmm0);
  mov(rax, ptr[rdi + offsetof(MixPanelArgs, col_init)]);
  vmovdqa32(ptr[rax], zmm0);
  vzeroupper();
  ret();
  freeze();
}

}  // namespace tessera::kernels::jit
