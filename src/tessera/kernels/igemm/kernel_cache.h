#pragma once
// Generated kernels, each built once per process and kept until it ends. Safe to call from any thread.
#include "tessera/kernels/igemm/jit/block.h"

namespace tessera::kernels {

/// The kernel for `key`, generated at the first call; throws tessera::Error when executable memory is refused.
jit::BlockFn block_kernel(const jit::BlockKey& key);

/// Sums of rows for AVX-512 VNNI, and panels for its mixed kernels.
jit::RowSumFn row_sum_kernel(bool mixed);
jit::MixPanelFn mix_panel_kernel();

/// Sums of rows times -b_offset, for AVX-VNNI (128) and AVX2.
jit::RowSumFn avx2_row_sum_kernel(int b_offset);

/// Configure this thread's tiles for blocks of `rows` rows (1..32), or give them back.
void configure_tiles(int rows);
void release_tiles();

/// Whether the CPU has vcvtneps2bf16 for 512-bit registers.
bool has_native_bf16();

}  // namespace tessera::kernels
