#include "tessera/kernels/igemm/jit/block.h"

#include <fmt/format.h>

namespace tessera::kernels::jit {
namespace {

const char* out_name(OutKind out) {
  switch (out) {
    case OutKind::kInt32:
      return "int32";
    case OutKind::kF32:
      return "f32";
    case OutKind::kF32Add:
      return "f32_add";
    case OutKind::kBf16:
      return "bf16";
  }
  return "?";
}

}  // namespace

std::string block_name(const BlockKey& key) {
  const std::string form =
      key.b_offset != 0 ? fmt::format("_offset{}_every{}", key.b_offset, key.widen_every) : std::string();
  return fmt::format("{}_{}x{}_{}_{}{}{}{}{}{}{}", key.bf16 ? "bgemm" : "igemm", key.rows, 16 * key.panels,
                     isa_name(key.isa), out_name(key.out), key.masked ? "_masked" : "", key.stream ? "_stream" : "",
                     key.unsigned_b ? "_unsigned_b" : "", key.mixed ? "_mixed" : "",
                     key.native_bf16 ? "_native_bf16" : "", form);
}

}  // namespace tessera::kernels::jit
