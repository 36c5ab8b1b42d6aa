#pragma once
// What the machine could do at most: the multiply instruction of an ISA on all threads, operands in registers.
#include <cstdint>
#include <string>

#include "tessera/base/isa.h"

namespace tessera::cli {

/// The instruction that igemm's best kernel for `isa` is made of: "tdpbssd", "vpdpbusd"; "" where none is measured.
std::string peak_instruction(IsaSet isa);

/// Execute that instruction often enough for `macs` multiply-accumulates in all, split over the threads.
void run_at_peak(IsaSet isa, std::int64_t macs);

/// Operations (2 x multiply-accumulates) per second of run_at_peak, best of a few samples; 0 where none is measured.
double measure_peak(IsaSet isa);

}  // namespace tessera::cli
