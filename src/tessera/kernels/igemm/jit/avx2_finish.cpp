#include "tessera/kernels/igemm/jit/avx2_finish.h"

namespace tessera::kernels::jit {

using namespace Xbyak;  // NOLINT(google-build-using-namespace): operand names of the generator

namespace {

constexpr int kAccRowBytes = kBlockColumns * 4;
constexpr int kPartBytes = 32;  // eight columns of INT32 or f32, sixteen of bf16

}  // namespace

// Registers: r11 sums, rbx output, rbp its stride, r13 rows left, r12 row scales, r9 bias, r8d columns to store.
// ymm0..ymm3 column scales, ymm4..ymm7 masks in the sign bits, ymm8 row scale, ymm9, ymm10 values, above: temporary.
void Avx2FinishEmitter::load(const Reg64& args) {
  const auto field = [&](std::size_t member) {
    return g_.ptr[args + static_cast<int>(offsetof(BlockArgs, finish) + member)];
  };
  g_.mov(g_.r11, field(offsetof(FinishArgs, acc)));
  g_.mov(g_.rbx, field(offsetof(FinishArgs, out)));
  g_.mov(g_.rbp, field(offsetof(FinishArgs, out_stride)));
  g_.mov(g_.r13, field(offsetof(FinishArgs, rows)));
  if (key_.masked) {
    g_.mov(g_.r8, field(offsetof(FinishArgs, columns)));
    g_.vmovd(g_.xmm8, g_.r8d);
    g_.vpbroadcastd(g_.ymm8, g_.xmm8);
    for (int i = 0; i < parts(); ++i) g_.vpsllvd(mask(i), g_.ymm8, g_.ptr[g_.rip + shifts_ + i * kPartBytes]);
  }
  if (key_.out == OutKind::kInt32) return;
  g_.mov(g_.r12, field(offsetof(FinishArgs, col_scale)));
  for (int i = 0; i < parts(); ++i) g_.vmovups(Ymm(i), g_.ptr[g_.r12 + i * kPartBytes]);
  g_.mov(g_.r9, field(offsetof(FinishArgs, bias)));
  g_.mov(g_.r12, field(offsetof(FinishArgs, row_scale)));
}

void Avx2FinishEmitter::rest() {
  Label next, done;
  g_.test(g_.r13, g_.r13);
  g_.jz(done, CodeGenerator::T_NEAR);
  g_.L(next);
  row();
  g_.add(g_.rbx, g_.rbp);
  g_.add(g_.r11, kAccRowBytes);
  if (key_.out != OutKind::kInt32) g_.add(g_.r12, 4);
  g_.dec(g_.r13);
  g_.jnz(next, CodeGenerator::T_NEAR);
  g_.L(done);
}

void Avx2FinishEmitter::row() {
  if (key_.out != OutKind::kInt32) g_.vbroadcastss(g_.ymm8, g_.ptr[g_.r12]);
  for (int i = 0; i < parts(); ++i) {
    scale(i);
    if (key_.out != OutKind::kBf16) {
      store_f32(i);
    } else if (i % 2 == 1) {
      store_bf16(i / 2);
    }
  }
}

void Avx2FinishEmitter::scale(int i) {
  const Address sums = g_.ptr[g_.r11 + i * kPartBytes];
  if (key_.out == OutKind::kInt32) {
    g_.vmovdqa(value(i), sums);
    return;
  }
  g_.vcvtdq2ps(value(i), sums);
  g_.vmulps(value(i), value(i), g_.ymm8);
  g_.vmulps(value(i), value(i), Ymm(i));
  g_.vaddps(value(i), value(i), g_.ptr[g_.r9 + i * kPartBytes]);
}

void Avx2FinishEmitter::store_f32(int i) {
  const Address out = g_.ptr[g_.rbx + i * kPartBytes];
  if (key_.out == OutKind::kF32Add) {
    if (key_.masked) {
      g_.vmaskmovps(g_.ymm11, mask(i), out);
      g_.vaddps(value(i), value(i), g_.ymm11);
    } else {
      g_.vaddps(value(i), value(i), out);
    }
  }
  if (key_.masked) {
    g_.vmaskmovps(out, mask(i), value(i));
  } else if (key_.stream) {
    g_.vmovntps(out, value(i));
  } else {
    g_.vmovups(out, value(i));
  }
}

// Two parts make one store of 32 bytes.
void Avx2FinishEmitter::store_bf16(int panel) {
  const Ymm low = value(0), high = value(1);
  round_to_bf16(low);
  round_to_bf16(high);
  g_.vpackusdw(low, low, high);  // per 128 bits: columns 0..3, 8..11, 4..7, 12..15
  g_.vpermq(low, low, 0xd8);
  const Address out = g_.ptr[g_.rbx + panel * kPartBytes];
  if (key_.masked) {
    store_bf16_masked(panel);
  } else if (key_.stream) {
    g_.vmovntdq(out, low);
  } else {
    g_.vmovdqu(out, low);
  }
}

// AVX2 has no masked store of 16-bit words.
void Avx2FinishEmitter::store_bf16_masked(int panel) {
  const Xmm low(value(0).getIdx()), high(value(1).getIdx());
  g_.vextracti128(high, value(0), 1);
  for (int c = 0; c < 16; ++c) {
    Label skip;
    g_.bt(g_.r8d, static_cast<std::uint8_t>(16 * panel + c));
    g_.jnc(skip, CodeGenerator::T_NEAR);
    g_.vpextrw(g_.ptr[g_.rbx + panel * kPartBytes + 2 * c], c < 8 ? low : high, static_cast<std::uint8_t>(c % 8));
    g_.L(skip);
  }
}

// to_bf16 of kernels/types.h on eight values; the results are the low halves of the words of `value`.
void Avx2FinishEmitter::round_to_bf16(const Ymm& value) {
  const Ymm upper(11), rounded(12), special(13), selected(14);
  g_.vpsrld(upper, value, 16);  // truncated
  g_.vpand(rounded, upper, g_.ptr[g_.rip + one_]);
  g_.vpaddd(rounded, rounded, g_.ptr[g_.rip + half_]);
  g_.vpaddd(rounded, rounded, value);
  g_.vpsrld(rounded, rounded, 16);  // to nearest even
  g_.vpor(special, upper, g_.ptr[g_.rip + quiet_]);
  g_.vcmpunordps(selected, value, value);
  g_.vblendvps(rounded, rounded, special, selected);
  g_.vpand(special, upper, g_.ptr[g_.rip + sign_]);
  g_.vpand(selected, value, g_.ptr[g_.rip + exponent_]);
  g_.vpxor(upper, upper, upper);
  g_.vpcmpeqd(selected, selected, upper);
  g_.vblendvps(value, rounded, special, selected);
}

void Avx2FinishEmitter::constants() {
  const auto constant = [&](Label& label, std::uint32_t word) {
    g_.align(32);
    g_.L(label);
    for (int i = 0; i < 8; ++i) g_.dd(word);
  };
  if (key_.masked) {
    g_.align(32);
    g_.L(shifts_);  // column c's bit to the sign bit
    for (std::uint32_t c = 0; c < kBlockColumns; ++c) g_.dd(31 - c);
  }
  if (key_.out != OutKind::kBf16) return;
  constant(one_, 1);
  constant(half_, 0x7fff);
  constant(exponent_, 0x7f800000);
  constant(sign_, 0x8000);
  constant(quiet_, 0x40);
}

}  // namespace tessera::kernels::jit
