#include "tessera/kernels/attention/tile.h"

#include "tessera/base/aligned_buffer.h"

#ifdef TESSERA_HAVE_JIT
#include "tessera/base/check.h"
#include "tessera/kernels/attention/jit/avx512_tile.h"
#include "tessera/kernels/igemm/kernel_cache.h"
#endif

namespace tessera::kernels {

#ifdef TESSERA_HAVE_JIT
TileKernels generated_tiles(bool bf16_pairs) try {
  if (bf16_pairs) {
    if (!has_native_bf16()) return {};
    static const jit::Avx512TileKernel plain(false, true), turned(true, true);
    return {plain.getCode<TileFn>(), turned.getCode<TileFn>()};
  }
  static const jit::Avx512TileKernel plain(false, false), turned(true, false);
  return {plain.getCode<TileFn>(), turned.getCode<TileFn>()};
} catch (const Xbyak::Error& error) {
  fail("attention's tile kernels cannot be generated: {}", error.what());
}
#else
TileKernels generated_tiles(bool /*bf16_pairs*/) { return {}; }
#endif

float* thread_scratch(std::size_t floats) {
  thread_local AlignedBuffer<float> buffer;
  if (buffer.size() < floats) buffer = AlignedBuffer<float>(floats);
  return buffer.data();
}

}  // namespace tessera::kernels
