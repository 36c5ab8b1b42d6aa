#include "tessera/kernels/igemm/jit/avx2.h"

#include <bit>

namespace tessera::kernels::jit {

using namespace Xbyak;  // NOLINT(google-build-using-namespace): operand names of the generator

namespace {

constexpr int kPrefetchBytes = 128;  // of a row, ahead: two steps
constexpr int kAccRowBytes = 4 * kBlockColumns;
constexpr int kFours = 16;      // times four codes in a step
constexpr int kHalfBytes = 32;  // eight columns of a panel, or of sums
constexpr int kMaxInt16 = 32767;

}  // namespace

Avx2Form avx2_form(int a_limit, int b_limit) {
  const int offset = static_cast<int>(std::bit_ceil(static_cast<unsigned>(b_limit)));
  const int largest = 2 * (offset + b_limit) * a_limit;  // of a sum that vpmaddubsw makes
  if (largest > kMaxInt16) return {};
  Avx2Form form{static_cast<std::uint8_t>(offset), kFours, kAvx2Rows};
  while (form.widen_every * largest > kMaxInt16) form.widen_every /= 2;
  if (form.widen_every == 2) form.rows = kAvx2PairRows;
  return form;
}

Avx2Kernel::Avx2Kernel(const BlockKey& key) : Generator(block_name(key)), key_(key) {
  generate();
  freeze();
}

// Registers: rdi arguments; rax, rcx rows 0 and 3 of the left operand, rdx its stride; rsi panel, r9 its begin; r10
// sums; r11 steps; r8 passes left. ymm4..ymm15 sums, of 16 bits where those of 32 stay in memory.
void Avx2Kernel::generate() {
  Avx2FinishEmitter finish(*this, key_);
  enter();
  mov(r9, ptr[rdi + offsetof(BlockArgs, b)]);
  mov(r10, ptr[rdi + offsetof(BlockArgs, acc)]);
  mov(r8d, key_.panels);
  Label pass, next, summed;
  L(pass);
  load_rows();
  start_sums();
  test(r11, r11);
  jz(summed, T_NEAR);
  align(64);
  L(next);
  step();
  dec(r11);
  jnz(next, T_NEAR);
  L(summed);
  if (!sums_in_memory()) store_sums();
  add(r9, ptr[rdi + offsetof(BlockArgs, panel_bytes)]);
  add(r10, 2 * kHalfBytes);
  dec(r8d);
  jnz(pass, T_NEAR);
  finish.load(rdi);
  finish.rest();
  leave();
  finish.constants();
  constants();
}

void Avx2Kernel::load_rows() {
  mov(rdx, ptr[rdi + offsetof(BlockArgs, a_stride)]);
  mov(rax, ptr[rdi + offsetof(BlockArgs, a)]);
  lea(rcx, ptr[rdx + rdx * 2]);
  add(rcx, rax);
  mov(rsi, r9);
  mov(r11, ptr[rdi + offsetof(BlockArgs, steps)]);
}

Address Avx2Kernel::row_code(int row, int offset) {
  const Reg64 base = row < 3 ? rax : rcx;
  if (row % 3 == 0) return ptr[base + offset];
  return ptr[base + rdx * (row % 3) + offset];
}

Address Avx2Kernel::sum_address(int row, int half) { return ptr[r10 + row * kAccRowBytes + half * kHalfBytes]; }

void Avx2Kernel::start_sums() {
  Label from_zero, ready;
  cmp(qword[rdi + offsetof(BlockArgs, load_acc)], 0);
  jz(from_zero, T_NEAR);
  if (!sums_in_memory()) {
    for (int r = 0; r < key_.rows; ++r)
      for (int h = 0; h < 2; ++h) vmovdqa(sum(r, h), sum_address(r, h));
  }
  jmp(ready, T_NEAR);
  L(from_zero);
  mov(rbx, ptr[rdi + offsetof(BlockArgs, row_init)]);
  for (int r = 0; r < key_.rows; ++r) {
    vpbroadcastd(sum(r, 0), ptr[rbx + 4 * r]);
    vmovdqa(sum(r, 1), sum(r, 0));
  }
  if (sums_in_memory()) store_sums();
  L(ready);
}

void Avx2Kernel::store_sums() {
  for (int r = 0; r < key_.rows; ++r)
    for (int h = 0; h < 2; ++h) vmovdqa(sum_address(r, h), sum(r, h));
}

// 64 codes of depth.
void Avx2Kernel::step() {
  if (key_.isa == IsaLevel::kAvxVnni) {
    step_vnni();
  } else if (key_.b_offset == 0) {
    step_signed();
  } else if (key_.widen_every == 1) {
    step_offset();
  } else if (key_.widen_every == 2) {
    step_offset_pairs();
  } else {
    step_narrow();
  }
  for (int r = 0; r < key_.rows; ++r) prefetcht0(row_code(r, kPrefetchBytes));
  add(rax, 4 * kFours);
  add(rcx, 4 * kFours);
  add(rsi, kFours * 2 * kHalfBytes);
}

// ymm0, ymm1 panel codes, ymm2 a row's, ymm3 sign bits: code ^ 0x80 is code + 128.
void Avx2Kernel::step_vnni() {
  vmovdqa(ymm3, ptr[rip + offset_]);
  for (int q = 0; q < kFours; ++q) {
    for (int h = 0; h < 2; ++h) load_panel(Ymm(h), 2 * q + h, ymm3);
    for (int r = 0; r < key_.rows; ++r) {
      vpbroadcastd(ymm2, row_code(r, 4 * q));
      for (int h = 0; h < 2; ++h) vpdpbusd(sum(r, h), Ymm(h), ymm2, VexEncoding);
    }
  }
}

// ymm0 panel codes, ymm1 their magnitudes, ymm2 a row's codes and products, ymm3 ones. Half a panel at a time: a
// row's codes are broadcast twice, which costs a load port and no register.
void Avx2Kernel::step_signed() {
  vmovdqa(ymm3, ptr[rip + ones_]);
  for (int q = 0; q < kFours; ++q)
    for (int h = 0; h < 2; ++h) {
      vmovdqa(ymm0, ptr[rsi + (2 * q + h) * kHalfBytes]);
      vpabsb(ymm1, ymm0);
      for (int r = 0; r < key_.rows; ++r) {
        vpbroadcastd(ymm2, row_code(r, 4 * q));
        vpsignb(ymm2, ymm2, ymm0);
        vpmaddubsw(ymm2, ymm1, ymm2);
        vpmaddwd(ymm2, ymm2, ymm3);
        vpaddd(sum(r, h), sum(r, h), ymm2);
      }
    }
}

// ymm0 panel codes, ymm1 offset, ymm2 a row's codes and products, ymm3 ones.
void Avx2Kernel::step_offset() {
  vmovdqa(ymm1, ptr[rip + offset_]);
  vmovdqa(ymm3, ptr[rip + ones_]);
  for (int q = 0; q < kFours; ++q)
    for (int h = 0; h < 2; ++h) {
      load_panel(ymm0, 2 * q + h, ymm1);
      for (int r = 0; r < key_.rows; ++r) {
        vpbroadcastd(ymm2, row_code(r, 4 * q));
        vpmaddubsw(ymm2, ymm0, ymm2);
        vpmaddwd(ymm2, ymm2, ymm3);
        vpaddd(sum(r, h), sum(r, h), ymm2);
      }
    }
}

// Two neighbors in k. ymm0, ymm1 their panel codes, ymm2, ymm3 a row's codes and products, ymm14 offset, ymm15 ones:
// were these read from memory, six rows would fit, but the load ports would be the limit.
void Avx2Kernel::step_offset_pairs() {
  vmovdqa(ymm14, ptr[rip + offset_]);
  vmovdqa(ymm15, ptr[rip + ones_]);
  for (int q = 0; q < kFours; q += 2)
    for (int h = 0; h < 2; ++h) {
      for (int i = 0; i < 2; ++i) load_panel(Ymm(i), 2 * (q + i) + h, ymm14);
      for (int r = 0; r < key_.rows; ++r) {
        for (int i = 0; i < 2; ++i) {
          vpbroadcastd(Ymm(2 + i), row_code(r, 4 * (q + i)));
          vpmaddubsw(Ymm(2 + i), Ymm(i), Ymm(2 + i));
        }
        vpaddw(ymm2, ymm2, ymm3);
        vpmaddwd(ymm2, ymm2, ymm15);
        vpaddd(sum(r, h), sum(r, h), ymm2);
      }
    }
}

// Many neighbors in k: sums of 16 bits take the registers. ymm0, ymm1 panel codes, ymm2 a row's, ymm3 products.
void Avx2Kernel::step_narrow() {
  for (int q = 0; q < kFours; ++q) {
    for (int h = 0; h < 2; ++h) load_panel(Ymm(h), 2 * q + h, ptr[rip + offset_]);
    for (int r = 0; r < key_.rows; ++r) {
      vpbroadcastd(ymm2, row_code(r, 4 * q));
      for (int h = 0; h < 2; ++h) {
        if (q % key_.widen_every == 0) {
          vpmaddubsw(sum(r, h), Ymm(h), ymm2);
        } else {
          vpmaddubsw(ymm3, Ymm(h), ymm2);
          vpaddw(sum(r, h), sum(r, h), ymm3);
        }
      }
    }
    if ((q + 1) % key_.widen_every == 0) widen_narrow();
  }
}

void Avx2Kernel::widen_narrow() {
  for (int r = 0; r < key_.rows; ++r)
    for (int h = 0; h < 2; ++h) {
      vpmaddwd(sum(r, h), sum(r, h), ptr[rip + ones_]);
      vpaddd(sum(r, h), sum(r, h), sum_address(r, h));
      vmovdqa(sum_address(r, h), sum(r, h));
    }
}

// Addition of bytes wraps, so that 128 works as well.
void Avx2Kernel::load_panel(const Ymm& to, int half, const Operand& b_offset) {
  vmovdqa(to, ptr[rsi + half * kHalfBytes]);
  if (!key_.unsigned_b) vpaddb(to, to, b_offset);
}

void Avx2Kernel::constants() {
  const auto constant = [&](Label& label, std::uint32_t word) {
    align(32);
    L(label);
    for (int i = 0; i < 8; ++i) dd(word);
  };
  const std::uint32_t offset = key_.isa == IsaLevel::kAvxVnni ? 128 : key_.b_offset;
  constant(offset_, 0x01010101u * offset);
  constant(ones_, 0x00010001u);
}

// Registers: rdi arguments; rax row, rcx its place, rdx steps left, rsi rows left, r8 result; ymm0 sums, ymm1 offset
// as the unsigned factor (two products of 128 * 127 fit 16 bits), ymm2 products, ymm3 ones.
Avx2RowSumKernel::Avx2RowSumKernel(int offset) : Generator("igemm_row_sums_avx2_" + std::to_string(offset)) {
  Label row, step, summed, done;
  mov(rax, ptr[rdi + offsetof(RowSumArgs, a)]);
  mov(rsi, ptr[rdi + offsetof(RowSumArgs, rows)]);
  mov(r8, ptr[rdi + offsetof(RowSumArgs, out)]);
  const auto broadcast = [&](const Ymm& to, std::uint32_t word) {
    mov(ecx, word);
    vmovd(Xmm(to.getIdx()), ecx);
    vpbroadcastd(to, Xmm(to.getIdx()));
  };
  broadcast(ymm1, 0x01010101u * static_cast<std::uint32_t>(offset));
  broadcast(ymm3, 0x00010001u);
  test(rsi, rsi);
  jz(done, T_NEAR);
  L(row);
  vpxor(ymm0, ymm0, ymm0);
  mov(rcx, rax);
  mov(rdx, ptr[rdi + offsetof(RowSumArgs, steps)]);
  test(rdx, rdx);
  jz(summed, T_NEAR);
  L(step);
  for (int half = 0; half < 2; ++half) {
    vpmaddubsw(ymm2, ymm1, ptr[rcx + half * kHalfBytes]);
    vpmaddwd(ymm2, ymm2, ymm3);
    vpaddd(ymm0, ymm0, ymm2);
  }
  add(rcx, 64);
  dec(rdx);
  jnz(step);
  L(summed);
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
