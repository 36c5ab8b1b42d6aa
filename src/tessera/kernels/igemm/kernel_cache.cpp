#include "tessera/kernels/igemm/kernel_cache.h"

#include <map>
#include <memory>
#include <mutex>

#include "tessera/base/check.h"
#include "tessera/kernels/igemm/jit/amx.h"
#include "tessera/kernels/igemm/jit/avx2.h"
#include "tessera/kernels/igemm/jit/avx512_vnni.h"

namespace tessera::kernels {
namespace {

std::unique_ptr<jit::Generator> generate(const jit::BlockKey& key) try {
  if (key.isa == IsaLevel::kAmx) return std::make_unique<jit::AmxKernel>(key);
  if (key.isa == IsaLevel::kAvx512Vnni) return std::make_unique<jit::Avx512VnniKernel>(key);
  return std::make_unique<jit::Avx2Kernel>(key);
} catch (const Xbyak::Error& error) {
  fail("kernel {} cannot be generated: {}", jit::block_name(key), error.what());
}

using TileConfigureFn = void (*)(const jit::TileConfig*);

TileConfigureFn tile_configure() {
  static const jit::TileConfigure kernel;
  return kernel.getCode<TileConfigureFn>();
}

}  // namespace

jit::BlockFn block_kernel(const jit::BlockKey& key) {
  static std::mutex mutex;
  static std::map<jit::BlockKey, std::unique_ptr<jit::Generator>> kernels;
  const std::lock_guard lock(mutex);
  auto& kernel = kernels[key];
  if (!kernel) kernel = generate(key);
  return kernel->getCode<jit::BlockFn>();
}

jit::RowSumFn row_sum_kernel(bool mixed) {
  static const jit::RowSumKernel plain_sums(false), mixed_sums(true);
  return (mixed ? mixed_sums : plain_sums).getCode<jit::RowSumFn>();
}

jit::RowSumFn avx2_row_sum_kernel(int b_offset) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<jit::Generator>> kernels;
  const std::lock_guard lock(mutex);
  auto& kernel = kernels[b_offset];
  if (!kernel) kernel = std::make_unique<jit::Avx2RowSumKernel>(b_offset);
  return kernel->getCode<jit::RowSumFn>();
}

jit::MixPanelFn mix_panel_kernel() {
  static const jit::MixPanelKernel kernel;
  return kernel.getCode<jit::MixPanelFn>();
}

void configure_tiles(int rows) {
  const jit::TileConfig config = jit::tile_config(rows);
  tile_configure()(&config);
}

void release_tiles() { tile_configure()(nullptr); }

bool has_native_bf16() {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16") != 0;
  }();
  return has;
}

}  // namespace tessera::kernels
