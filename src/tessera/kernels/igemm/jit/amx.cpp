#include "tessera/kernels/igemm/jit/amx.h"

#include <algorithm>

namespace tessera::kernels::jit {

using namespace Xbyak;  // NOLINT(google-build-using-namespace): operand names of the generator

namespace {
constexpr int kTileRows = 16, kTileBytes = 64, kTileSize = kTileRows * kTileBytes;
constexpr int kAccRowBytes = 4 * kBlockColumns;
constexpr int kPrefetchSteps = 2;
constexpr int kFinishRows = 4;  // per step: a block of 32 rows is finished within 8 steps, k = 512
}  // namespace

TileConfig tile_config(int rows) {
  TileConfig config;
  const auto top = static_cast<std::uint8_t>(std::min(rows, kTileRows));
  const auto bottom = static_cast<std::uint8_t>(std::max(rows - kTileRows, 0));
  const std::uint8_t tile_rows[8] = {top, top, bottom, bottom, top, bottom, kTileRows, kTileRows};
  for (int t = 0; t < 8; ++t) {
    if (tile_rows[t] == 0) continue;
    config.rows[t] = tile_rows[t];
    config.row_bytes[t] = kTileBytes;
  }
  return config;
}

AmxKernel::AmxKernel(const BlockKey& key)
    : Generator(block_name(key)), key_(key), row_tiles_(key.rows > kTileRows ? 2 : 1) {
  generate();
  freeze();
}

// Registers: rdi arguments; rax, rcx upper and lower tile of the left operand, rdx its stride; rsi, r8 panels, r10
// their stride of 64 bytes; r9 steps. tmm0..tmm3 sums, tmm4, tmm5 left operand, tmm6, tmm7 panels. The finish has
// registers of its own.
void AmxKernel::generate() {
  FinishEmitter finish(*this, key_);
  enter();
  load_pointers();
  finish.load(rdi);
  start_sums();
  Label both, products, product, summed;
  align(64);
  L(both);  // a step of products and four rows to finish
  test(r9, r9);
  jz(summed, T_NEAR);
  cmp(finish.rows_left(), kFinishRows);
  jl(products, T_NEAR);
  step();
  finish.rows(kFinishRows);
  dec(r9);
  jmp(both, T_NEAR);
  L(products);  // only products are left
  L(product);
  step();
  dec(r9);
  jnz(product, T_NEAR);
  L(summed);
  finish.rest();
  store_sums();
  leave();
  finish.constants();
}

void AmxKernel::load_pointers() {
  mov(rdx, ptr[rdi + offsetof(BlockArgs, a_stride)]);
  mov(rax, ptr[rdi + offsetof(BlockArgs, a)]);
  mov(rcx, rdx);
  shl(rcx, 4);
  add(rcx, rax);
  mov(rsi, ptr[rdi + offsetof(BlockArgs, b)]);
  mov(r8, ptr[rdi + offsetof(BlockArgs, panel_bytes)]);
  add(r8, rsi);
  mov(r9, ptr[rdi + offsetof(BlockArgs, steps)]);
  mov(r10, kTileBytes);
}

void AmxKernel::start_sums() {
  static_assert(kAccRowBytes == 2 * kTileBytes, "a row of sums is r10 * 2");
  Label from_zero, ready;
  cmp(qword[rdi + offsetof(BlockArgs, load_acc)], 0);
  jz(from_zero, T_NEAR);
  mov(rdi, ptr[rdi + offsetof(BlockArgs, acc)]);
  for (int t = 0; t < row_tiles_; ++t)
    for (int p = 0; p < key_.panels; ++p)
      tileloadd(sum(t, p), ptr[rdi + r10 * 2 + t * kTileRows * kAccRowBytes + p * kTileBytes]);
  jmp(ready, T_NEAR);
  L(from_zero);
  mov(rdi, ptr[rdi + offsetof(BlockArgs, acc)]);
  for (int t = 0; t < row_tiles_; ++t)
    for (int p = 0; p < key_.panels; ++p) tilezero(sum(t, p));
  L(ready);
}

void AmxKernel::step() {
  tileloadd(tmm6, ptr[rsi + r10]);
  tileloadd(tmm4, ptr[rax + rdx]);
  product(sum(0, 0), tmm4, tmm6);
  prefetch_tile(rsi);
  if (key_.panels == 2) {
    tileloadd(tmm7, ptr[r8 + r10]);
    product(sum(0, 1), tmm4, tmm7);
    prefetch_tile(r8);
  }
  if (row_tiles_ == 2) {
    tileloadd(tmm5, ptr[rcx + rdx]);
    product(sum(1, 0), tmm5, tmm6);
    if (key_.panels == 2) product(sum(1, 1), tmm5, tmm7);
    add(rcx, kTileBytes);
  }
  add(rax, kTileBytes);
  add(rsi, kTileSize);
  add(r8, kTileSize);
}

void AmxKernel::product(const Tmm& sums, const Tmm& a, const Tmm& b) {
  if (key_.bf16) {
    tdpbf16ps(sums, a, b);
  } else {
    tdpbssd(sums, a, b);
  }
}

// Hardware does not see tiles coming when a panel is read for the first time.
void AmxKernel::prefetch_tile(const Reg64& panel) {
  for (int r = 0; r < kTileRows; ++r) prefetcht0(ptr[panel + kPrefetchSteps * kTileSize + r * kTileBytes]);
}

void AmxKernel::store_sums() {
  for (int t = 0; t < row_tiles_; ++t)
    for (int p = 0; p < key_.panels; ++p)
      tilestored(ptr[rdi + r10 * 2 + t * kTileRows * kAccRowBytes + p * kTileBytes], sum(t, p));
}

TileConfigure::TileConfigure() : Generator("igemm_tile_configure") {
  Label give_back;
  test(rdi, rdi);
  jz(give_back);
  ldtilecfg(ptr[rdi]);
  ret();
  L(give_back);
  tilerelease();
  ret();
  freeze();
}

}  // namespace tessera::kernels::jit
