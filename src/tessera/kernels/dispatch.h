#pragma once
// From an IsaSet to one entry of a Highway table. A SIMD family compiles its code once per target (foreach_target.h)
// and calls
//
//   simd_entry(HWY_DISPATCH_TABLE(scale_rows), isa, &reference::scale_rows)(params, begin, end);
//
// | IsaSet has                  | x86 runs                                                       | elsewhere |
// |-----------------------------|----------------------------------------------------------------|-----------|
// | nothing                     | the plain C++ reference                                        | Highway's |
// | avx2 or avx_vnni            | HWY_AVX2                                                       | baseline  |
// | avx512_vnni or amx_int8     | the best of HWY_AVX3_DL, HWY_AVX3, HWY_AVX2 that the CPU has   | (NEON)    |
//
// The set is a ceiling: a target that this CPU lacks is never entered, whatever CPU the set pretends. Include after
// hwy/foreach_target.h and use it under HWY_ONCE.
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "tessera/base/isa.h"
#include "tessera/kernels/simd_targets.h"

namespace tessera::kernels {

/// The best entry of a HWY_EXPORT table for `isa`, or `reference`; never null.
template <typename Function, std::size_t kEntries>
Function* simd_entry(Function* const (&table)[kEntries], IsaSet isa, Function* reference) {
  const std::int64_t targets = simd_targets(isa) & HWY_TARGETS;
  if (targets == 0) return reference;
  if constexpr (kEntries == 1) {
    return table[0];  // one compiled target: the table has no other entries
  } else {
    hwy::ChosenTarget chosen;
    chosen.Update(targets);
    return table[chosen.GetIndex()];
  }
}

}  // namespace tessera::kernels
