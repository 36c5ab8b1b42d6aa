#pragma once
// Which instructions Tessera uses: decided once, printed at start, forcible by TESSERA_FORCE_ISA.
#include <string>
#include <string_view>

namespace tessera {

/// Rungs of one ladder; a kernel family takes its best kernel at or below the rung.
enum class IsaLevel { kReference, kAvx2, kAvxVnni, kAvx512Vnni, kAmx };

/// A set of instruction groups. Tests pretend CPUs by making one; `enabled_isa()` is the default argument.
struct IsaSet {
  bool avx2 = false, avx_vnni = false, avx512_vnni = false, amx_int8 = false;
  bool operator==(const IsaSet&) const = default;
  /// Everything at or below `level` that this set has.
  IsaSet up_to(IsaLevel level) const;
  bool has(IsaLevel level) const;
  IsaLevel best() const;
};

/// "reference", "avx2", "avx_vnni", "avx512_vnni", "amx".
std::string_view isa_name(IsaLevel level);
/// Parse one of those names; throws Error that lists them.
IsaLevel parse_isa(std::string_view name);

/// What this CPU and operating system offer (AMX: after arch_prctl granted the tiles).
IsaSet detected_isa();
/// `detected` capped by `forced` (empty: not forced); throws Error when the CPU lacks the forced level.
IsaSet resolve_isa(IsaSet detected, std::string_view forced);
/// The process's choice: resolve_isa(detected_isa(), $TESSERA_FORCE_ISA), decided at the first call.
IsaSet enabled_isa();
/// One line for the start of a run: "amx (CPU: ...; forced by TESSERA_FORCE_ISA)".
std::string describe_isa();

}  // namespace tessera
