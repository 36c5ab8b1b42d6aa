#pragma once
// The integer matrix product and the packing in plain C++: what every fast path is compared with, and what runs where
// nobody wrote a generator. Shares no helper with the fast paths.
#include "tessera/kernels/igemm/igemm.h"

namespace tessera::kernels {

void igemm_reference(const IgemmParams& params);
void pack_b_reference(const PackSource& source, const PackedB& b);

}  // namespace tessera::kernels
