#pragma once
// Micro-kernel of up to 32 rows x 32 columns on INT8 tiles (AMX).
//
// 2 x 2 tiles of sums, 2 of the left operand, 2 of panels: 4 products of 16 x 16 x 64 per 4 tile loads. Four rows of
// the finish of an earlier block go between the products of two steps; they use the vector ports, the products do not.
#include "tessera/kernels/igemm/jit/finish.h"

namespace tessera::kernels::jit {

inline constexpr int kAmxRows = 32;

/// The 64 bytes that ldtilecfg reads.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

/// Tiles for a kernel of `rows` rows (1..32): 0..3 sums, 4 and 5 left operand, 6 and 7 panels.
TileConfig tile_config(int rows);

class AmxKernel : public Generator {
 public:
  explicit AmxKernel(const BlockKey& key);

 private:
  void generate();
  void load_pointers();
  void start_sums();
  void step();
  void product(const Xbyak::Tmm& sums, const Xbyak::Tmm& a, const Xbyak::Tmm& b);
  void prefetch_tile(const Xbyak::Reg64& panel);
  void store_sums();
  Xbyak::Tmm sum(int row_tile, int panel) const { return Xbyak::Tmm(2 * row_tile + panel); }

  BlockKey key_;
  int row_tiles_;
};

/// `void(const TileConfig*)`: load a configuration, or give the tiles back when the pointer is null.
class TileConfigure : public Generator {
 public:
  TileConfigure();
};

}  // namespace tessera::kernels::jit
