// Generated code as such: every variant can be generated on any x86-64 CPU, keeps the callee-saved registers, and its
// epilogue has the canonical bits whichever way it rounds to bf16.
#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>

#include "tessera/kernels/igemm/jit/amx.h"
#include "tessera/kernels/igemm/jit/avx2.h"
#include "tessera/kernels/igemm/jit/avx512_vnni.h"
#include "tessera/kernels/igemm/kernel_cache.h"
#include "tessera/kernels/types.h"

namespace tessera::kernels::jit {
namespace {

std::unique_ptr<Generator> make(const BlockKey& key) {
  if (key.isa == IsaLevel::kAmx) return std::make_unique<AmxKernel>(key);
  if (key.isa == IsaLevel::kAvx512Vnni) return std::make_unique<Avx512VnniKernel>(key);
  return std::make_unique<Avx2Kernel>(key);
}

int last_rows(IsaLevel isa) {
  if (isa == IsaLevel::kAmx) return kAmxRows;
  return isa == IsaLevel::kAvx512Vnni ? kVnniRows : kAvx2Rows;
}

bool avx512(IsaLevel isa) { return isa >= IsaLevel::kAvx512Vnni; }

std::vector<BlockKey> variants(IsaLevel isa) {
  std::vector<BlockKey> keys;
  const int first = isa == IsaLevel::kAmx ? 16 : 1, step = isa == IsaLevel::kAmx ? 16 : 1;
  const int last = last_rows(isa);
  for (int rows = first; rows <= last; rows += step)
    for (int panels : {1, 2})
      for (OutKind out : {OutKind::kInt32, OutKind::kF32, OutKind::kF32Add, OutKind::kBf16})
        for (int flags = 0; flags < 16; ++flags) {
          BlockKey key{isa, static_cast<std::uint8_t>(rows), static_cast<std::uint8_t>(panels), out};
          key.masked = flags & 1;
          key.stream = (flags & 2) && !key.masked && panels == 2 && (out == OutKind::kF32 || out == OutKind::kBf16);
          key.native_bf16 = (flags & 4) && out == OutKind::kBf16 && avx512(isa);
          key.unsigned_b = (flags & 8) && isa != IsaLevel::kAmx;
          if (isa == IsaLevel::kAvx2 && (flags & 8)) {  // the form of int4 codes; avx2_test.cpp has all
            key.b_offset = 8;
            key.widen_every = 16;
          }
          keys.push_back(key);
          if (isa == IsaLevel::kAvx512Vnni && rows <= kMixedRows) {
            keys.push_back(key);
            keys.back().unsigned_b = false;
            keys.back().mixed = true;
          }
          if (avx512(isa) && out != OutKind::kInt32) {
            keys.push_back(key);
            keys.back().unsigned_b = false;
            keys.back().bf16 = true;
          }
        }
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

class JitTest : public ::testing::TestWithParam<IsaLevel> {};

TEST_P(JitTest, EveryVariantIsGenerated) {
  std::size_t bytes = 0;
  for (const BlockKey& key : variants(GetParam())) bytes += make(key)->getSize();
  EXPECT_GT(bytes, 0u);
  if (!detected_isa().has(GetParam())) GTEST_SKIP() << "generated, not run: this CPU lacks " << isa_name(GetParam());
}

TEST_P(JitTest, CodeIsNotWritable) {
  const std::unique_ptr<Generator> kernel = make(variants(GetParam()).front());
  const auto address = reinterpret_cast<std::uintptr_t>(kernel->getCode());
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  ASSERT_NE(maps, nullptr);
  char line[512], access[8] = {};
  while (std::fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long begin = 0, end = 0;
    char flags[8] = {};
    if (std::sscanf(line, "%lx-%lx %4s", &begin, &end, flags) == 3 && begin <= address && address < end)
      std::memcpy(access, flags, sizeof(flags));
  }
  std::fclose(maps);
  EXPECT_STREQ(access, "r-xp");
}

TEST_P(JitTest, DumpWritesTheCode) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("jit_dump_" + std::string(isa_name(GetParam())));
  std::filesystem::create_directories(folder);
  setenv("TESSERA_JIT_DUMP", folder.c_str(), 1);
  const std::unique_ptr<Generator> kernel = make(variants(GetParam()).back());
  unsetenv("TESSERA_JIT_DUMP");
  EXPECT_EQ(std::filesystem::file_size(folder / (kernel->name() + ".bin")), kernel->getSize());
  std::filesystem::remove_all(folder);
}

/// Calls a kernel with known values in the callee-saved registers: `int(BlockFn, const BlockArgs*)`, 1 if all survive.
class CalleeSavedProbe : public Xbyak::CodeGenerator {
 public:
  CalleeSavedProbe() : Xbyak::CodeGenerator(4096, Xbyak::DontSetProtectRWE) {
    const Xbyak::Reg64 saved[] = {rbx, rbp, r12, r13, r14, r15};
    Xbyak::Label bad, end;
    for (const auto& reg : saved) push(reg);
    sub(rsp, 8);
    mov(rax, rdi);
    mov(rdi, rsi);
    for (const auto& reg : saved) mov(reg, 0x1234567800000000u + static_cast<unsigned>(reg.getIdx()));
    call(rax);
    for (const auto& reg : saved) {
      mov(rcx, 0x1234567800000000u + static_cast<unsigned>(reg.getIdx()));
      cmp(reg, rcx);
      jne(bad, T_NEAR);
    }
    mov(eax, 1);
    jmp(end, T_NEAR);
    L(bad);
    xor_(eax, eax);
    L(end);
    add(rsp, 8);
    for (int i = 5; i >= 0; --i) pop(saved[i]);
    ret();
    ready();
    setProtectModeRE();
  }
};

/// A block of zeros, and another one that is finished.
struct Block {
  static constexpr int kRows = 32;
  alignas(64) std::int8_t a[kRows * 64] = {}, b[2 * 1024] = {};
  alignas(64) std::int32_t acc[kRows * kBlockColumns] = {}, sums[kRows * kBlockColumns] = {};
  alignas(64) float out[kRows * kBlockColumns] = {};
  alignas(64) float row_scale[kRows], col_scale[kBlockColumns], bias[kBlockColumns];
  std::int32_t row_init[kRows] = {};
  alignas(64) std::int32_t col_init[kBlockColumns] = {};

  Block() {
    std::fill_n(row_scale, kRows, 1.0f);
    std::fill_n(col_scale, kBlockColumns, 1.0f);
    std::fill_n(bias, kBlockColumns, -0.0f);
  }
  BlockArgs args(const BlockKey& key, std::int64_t steps) {
    BlockArgs args{};
    args.a = a;
    args.a_stride = 64;
    args.b = b;
    args.panel_bytes = 1024;
    args.steps = steps;
    args.acc = acc;
    args.row_init = row_init;
    args.col_init = col_init;
    const std::int64_t element = key.out == OutKind::kBf16 ? 2 : 4;
    args.finish = {sums, out, kBlockColumns * element, row_scale, col_scale, bias, key.rows, 0x7fff7fff};
    return args;
  }
};

TEST_P(JitTest, CalleeSavedRegistersSurvive) {
  if (!detected_isa().has(GetParam())) GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam());
  CalleeSavedProbe probe;
  const auto survive = probe.getCode<int (*)(BlockFn, const BlockArgs*)>();
  for (const BlockKey& key : variants(GetParam())) {
    if ((key.native_bf16 || key.bf16) && !has_native_bf16()) continue;
    Block block;
    const BlockArgs args = block.args(key, 1);
    if (key.isa == IsaLevel::kAmx) configure_tiles(key.rows);
    EXPECT_EQ(survive(block_kernel(key), &args), 1) << block_name(key);
    if (key.isa == IsaLevel::kAmx) release_tiles();
  }
}

TEST_P(JitTest, Bf16HasCanonicalBitsForAnyValue) {
  if (!detected_isa().has(GetParam())) GTEST_SKIP() << "this CPU lacks " << isa_name(GetParam());
  std::mt19937 random(1);
  for (bool native : {false, true}) {
    if (native && !(has_native_bf16() && avx512(GetParam()))) continue;
    BlockKey key{GetParam(), static_cast<std::uint8_t>(last_rows(GetParam())), 2, OutKind::kBf16};
    key.native_bf16 = native;
    for (int round = 0; round < 200; ++round) {
      Block block;
      std::fill_n(block.sums, std::size(block.sums), 1);
      for (float& scale : block.row_scale) scale = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
      // Halfway between two bf16 values, and its neighbors; a denormal; a NaN.
      const std::uint32_t chosen[] = {0x3f808000, 0x3f818000, 0x3f808001, 0x3f817fff,
                                      0x00000001, 0x807fffff, 0x7fc00001};
      for (int i = 0; i < 7; ++i) block.row_scale[i] = std::bit_cast<float>(chosen[i]);
      const BlockArgs args = block.args(key, 0);
      if (key.isa == IsaLevel::kAmx) configure_tiles(key.rows);
      block_kernel(key)(&args);
      if (key.isa == IsaLevel::kAmx) release_tiles();
      std::uint16_t out[kBlockColumns];
      for (int r = 0; r < key.rows; ++r) {
        std::memcpy(out, reinterpret_cast<const std::uint16_t*>(block.out) + r * kBlockColumns, sizeof(out));
        const std::uint16_t expected = to_bf16(1.0f * block.row_scale[r] * 1.0f + -0.0f);
        for (std::uint16_t bits : out)
          ASSERT_EQ(bits, expected) << std::hexfloat << block.row_scale[r] << " native " << native;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, JitTest,
                         ::testing::Values(IsaLevel::kAvx2, IsaLevel::kAvxVnni, IsaLevel::kAvx512Vnni, IsaLevel::kAmx),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace tessera::kernels::jit
