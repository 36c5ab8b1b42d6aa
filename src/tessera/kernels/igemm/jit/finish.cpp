#include "tessera/kernels/igemm/jit/finish.h"

namespace tessera::kernels::jit {

using namespace Xbyak;  // NOLINT(google-build-using-namespace): operand names of the generator

namespace {

constexpr int kAccRowBytes = kBlockColumns * 4;

int finish_offset(std::size_t member) { return static_cast<int>(offsetof(BlockArgs, finish) + member); }

}  // namespace

void FinishEmitter::load(const Reg64& args) {
  const auto field = [&](std::size_t member) { return g_.ptr[args + finish_offset(member)]; };
  g_.mov(g_.r11, field(offsetof(FinishArgs, acc)));
  g_.mov(g_.rbx, field(offsetof(FinishArgs, out)));
  g_.mov(g_.rbp, field(offsetof(FinishArgs, out_stride)));
  g_.mov(g_.r13, field(offsetof(FinishArgs, rows)));
  if (key_.masked) {
    g_.kmovd(g_.k1, g_.dword[args + finish_offset(offsetof(FinishArgs, columns))]);
    g_.kshiftrd(g_.k2, g_.k1, 16);
  }
  if (key_.out == OutKind::kInt32) return;
  g_.mov(g_.r12, field(offsetof(FinishArgs, col_scale)));
  for (int p = 0; p < key_.panels; ++p) g_.vmovups(Zmm(p), g_.ptr[g_.r12 + 64 * p]);
  g_.mov(g_.r12, field(offsetof(FinishArgs, bias)));
  for (int p = 0; p < key_.panels; ++p) g_.vmovups(Zmm(2 + p), g_.ptr[g_.r12 + 64 * p]);
  g_.mov(g_.r12, field(offsetof(FinishArgs, row_scale)));
}

void FinishEmitter::rows(int count) {
  for (int r = 0; r < count; ++r) {
    row(r);
    g_.add(g_.rbx, g_.rbp);
  }
  g_.add(g_.r11, count * kAccRowBytes);
  if (key_.out != OutKind::kInt32) g_.add(g_.r12, count * 4);
  g_.sub(g_.r13, count);
}

void FinishEmitter::rest() {
  Label fours, ones, one, done;
  g_.L(fours);
  g_.cmp(g_.r13, 4);
  g_.jl(ones, CodeGenerator::T_NEAR);
  rows(4);
  g_.jmp(fours, CodeGenerator::T_NEAR);
  g_.L(ones);
  g_.test(g_.r13, g_.r13);
  g_.jz(done, CodeGenerator::T_NEAR);
  g_.L(one);
  rows(1);
  g_.jnz(one, CodeGenerator::T_NEAR);
  g_.L(done);
}

void FinishEmitter::row(int r) {
  for (int p = 0; p < key_.panels; ++p) {
    const Address sums = g_.ptr[g_.r11 + r * kAccRowBytes + 64 * p];
    if (key_.out == OutKind::kInt32) {
      g_.vmovdqu32(value(p), sums);
      continue;
    }
    if (key_.bf16) {
      g_.vmovups(value(p), sums);
    } else {
      g_.vcvtdq2ps(value(p), sums);
    }
    g_.vmulps(value(p), value(p), g_.ptr_b[g_.r12 + 4 * r]);
    g_.vmulps(value(p), value(p), Zmm(p));
    g_.vaddps(value(p), value(p), Zmm(2 + p));
  }
  if (key_.out == OutKind::kBf16) {
    store_bf16();
  } else {
    for (int p = 0; p < key_.panels; ++p) store_f32(p);
  }
}

void FinishEmitter::store_f32(int p) {
  const Opmask mask = Opmask(1 + p);
  const Address out = g_.ptr[g_.rbx + 64 * p];
  if (key_.out == OutKind::kF32Add) {
    if (key_.masked) {
      g_.vaddps(value(p) | mask | g_.T_z, value(p), out);
    } else {
      g_.vaddps(value(p), value(p), out);
    }
  }
  if (key_.masked) {
    g_.vmovups(out | mask, value(p));
  } else if (key_.stream) {
    g_.vmovntps(out, value(p));
  } else {
    g_.vmovups(out, value(p));
  }
}

// Two panels make one store of 64 bytes, one panel one of 32.
void FinishEmitter::store_bf16() {
  const Zmm z(4), high(5);
  if (key_.native_bf16) {
    if (key_.panels == 2) {
      g_.vcvtne2ps2bf16(z, high, z);
    } else {
      g_.vcvtneps2bf16(Ymm(4), z);
    }
  } else {
    for (int p = 0; p < key_.panels; ++p) round_to_bf16(value(p), Zmm(6), Zmm(7));
    if (key_.panels == 2) g_.vinserti32x8(z, z, Ymm(5), 1);
  }
  if (key_.panels == 1) {
    if (key_.masked) {
      g_.vmovdqu16(g_.ptr[g_.rbx] | g_.k1, Ymm(4));
    } else {
      g_.vmovdqu16(g_.ptr[g_.rbx], Ymm(4));
    }
  } else if (key_.masked) {
    g_.vmovdqu16(g_.ptr[g_.rbx] | g_.k1, z);
  } else if (key_.stream) {
    g_.vmovntdq(g_.ptr[g_.rbx], z);
  } else {
    g_.vmovdqu16(g_.ptr[g_.rbx], z);
  }
}

// to_bf16 of kernels/types.h on sixteen values; the result lies in the low half of `value`.
void FinishEmitter::round_to_bf16(const Zmm& value, const Zmm& temp, const Zmm& temp2) {
  const auto constant = [&](Label& label) { return g_.ptr_b[g_.rip + label]; };
  g_.vpsrld(temp, value, 16);  // the upper half, truncated
  g_.vpandd(temp2, temp, constant(one_));
  g_.vpaddd(temp2, temp2, constant(half_));
  g_.vpaddd(temp2, temp2, value);
  g_.vpsrld(temp2, temp2, 16);  // rounded to nearest even
  g_.vcmpunordps(g_.k3, value, value);
  g_.vpord(temp2 | g_.k3, temp, constant(quiet_));
  g_.vptestnmd(g_.k4, value, constant(exponent_));
  g_.vpandd(temp2 | g_.k4, temp, constant(sign_));
  g_.vpmovdw(Ymm(value.getIdx()), temp2);
}

void FinishEmitter::constants() {
  if (key_.out != OutKind::kBf16 || key_.native_bf16) return;
  g_.align(4);
  const auto constant = [&](Label& label, std::uint32_t word) {
    g_.L(label);
    g_.dd(word);
  };
  constant(one_, 1);
  constant(half_, 0x7fff);
  constant(exponent_, 0x7f800000);
  constant(sign_, 0x8000);
  constant(quiet_, 0x40);
}

}  // namespace tessera::kernels::jit
