#pragma once
// Cache blocking and threads for the generated kernels.
//
// A task is a block of rows times a block of columns. Within it, depth is cut so that the left operand's block stays
// in L2; a pair of panels is then multiplied with every row block before the next pair comes (it stays in L1). When
// depth is cut, INT32 sums wait in thread-local memory; otherwise they never leave L1: a block's sums are scaled and
// stored while the next block is multiplied.
#include "tessera/kernels/igemm/igemm.h"

namespace tessera::kernels {

void igemm_amx(const IgemmParams& params);
void igemm_avx512_mixed(const IgemmParams& params);
void igemm_avx512_vnni(const IgemmParams& params);
void igemm_avx_vnni(const IgemmParams& params);
void igemm_avx2(const IgemmParams& params);

/// `params` of a bf16 product in igemm's units: two bytes of contraction a number.
void bgemm_amx(const IgemmParams& params);
void bgemm_avx512(const IgemmParams& params);

}  // namespace tessera::kernels
