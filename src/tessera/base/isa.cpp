#include "tessera/base/isa.h"

#include <cstdlib>

#include "tessera/base/check.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera {
namespace {

constexpr IsaLevel kLevels[] = {IsaLevel::kReference, IsaLevel::kAvx2, IsaLevel::kAvxVnni, IsaLevel::kAvx512Vnni,
                                IsaLevel::kAmx};

#if defined(__x86_64__)
// Linux hands out the tile registers per process: ARCH_REQ_XCOMP_PERM for XTILEDATA.
bool request_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023, kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}

IsaSet detect() {
  IsaSet set;
  __builtin_cpu_init();
  set.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  // __builtin_cpu_supports covers what the operating system saves for AVX and AVX-512.
  set.avx512_vnni = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vnni");
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (set.avx2 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) set.avx_vnni = (a >> 4) & 1u;
  if (set.avx512_vnni && __get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    const bool tile = (d >> 24) & 1u, int8 = (d >> 25) & 1u;
    set.amx_int8 = tile && int8 && request_tiles();
  }
  return set;
}
#else
IsaSet detect() { return {}; }
#endif

}  // namespace

IsaSet IsaSet::up_to(IsaLevel level) const {
  IsaSet set = *this;
  set.avx2 &= level >= IsaLevel::kAvx2;
  set.avx_vnni &= level >= IsaLevel::kAvxVnni;
  set.avx512_vnni &= level >= IsaLevel::kAvx512Vnni;
  set.amx_int8 &= level >= IsaLevel::kAmx;
  return set;
}

bool IsaSet::has(IsaLevel level) const {
  switch (level) {
    case IsaLevel::kReference:
      return true;
    case IsaLevel::kAvx2:
      return avx2;
    case IsaLevel::kAvxVnni:
      return avx_vnni;
    case IsaLevel::kAvx512Vnni:
      return avx512_vnni;
    case IsaLevel::kAmx:
      return amx_int8;
  }
  return false;
}

IsaLevel IsaSet::best() const {
  IsaLevel best = IsaLevel::kReference;
  for (IsaLevel level : kLevels)
    if (has(level)) best = level;
  return best;
}

std::string_view isa_name(IsaLevel level) {
  switch (level) {
    case IsaLevel::kReference:
      return "reference";
    case IsaLevel::kAvx2:
      return "avx2";
    case IsaLevel::kAvxVnni:
      return "avx_vnni";
    case IsaLevel::kAvx512Vnni:
      return "avx512_vnni";
    case IsaLevel::kAmx:
      return "amx";
  }
  return "?";
}

IsaLevel parse_isa(std::string_view name) {
  for (IsaLevel level : kLevels)
    if (isa_name(level) == name) return level;
  fail("ISA is '{}', expected reference, avx2, avx_vnni, avx512_vnni or amx", name);
}

IsaSet detected_isa() {
  static const IsaSet set = detect();
  return set;
}

IsaSet resolve_isa(IsaSet detected, std::string_view forced) {
  if (forced.empty()) return detected;
  const IsaLevel level = parse_isa(forced);
  TESSERA_CHECK(detected.has(level), "TESSERA_FORCE_ISA is '{}', which this CPU lacks; its best is '{}'", forced,
                isa_name(detected.best()));
  return detected.up_to(level);
}

IsaSet enabled_isa() {
  static const IsaSet set = [] {
    const char* forced = std::getenv("TESSERA_FORCE_ISA");
    return resolve_isa(detected_isa(), forced ? forced : "");
  }();
  return set;
}

std::string describe_isa() {
  const IsaLevel best = enabled_isa().best();
  std::string line(isa_name(best));
  if (std::getenv("TESSERA_FORCE_ISA") != nullptr)
    line += fmt::format(" (forced by TESSERA_FORCE_ISA; the CPU has {})", isa_name(detected_isa().best()));
  return line;
}

}  // namespace tessera
