#include "tessera/quant/weight_codes.h"

#include "tessera/base/int4.h"
#include "tessera/base/part_timers.h"

namespace tessera::quant {

Int4Weight make_int4_weight(const at::Tensor& weight, std::int32_t block) {
  const ScopedPart part(Part::kWeightCodes);
  Int4Weight made;
  made.codes = rotate_rows(weight, {.block = block, .int4_packed = true, .trust_mask = true}).int4;
  made.forward_panels = pack_panels(made.codes, /*transposed=*/false);
  made.dx_panels = pack_panels(made.codes, /*transposed=*/true);
  return made;
}

Int7Weight make_int7_weight(const at::Tensor& weight, std::int32_t block) {
  const ScopedPart part(Part::kWeightCodes);
  const RowCodes codes = rotate_rows(weight, {.block = block, .absmax_limit = kInt7Max}).absmax;
  return {block, codes.scales, pack_panels(codes, /*transposed=*/false), pack_panels(codes, /*transposed=*/true)};
}

Int8Weight make_int8_weight(const at::Tensor& weight) {
  const ScopedPart part(Part::kWeightCodes);
  Int8Weight made;
  FoldedCodes codes =
      fold_quantize(weight, {.limit = kInt8Max, .rounding = Rounding::kNearestEven, .rows = true, .columns = true});
  made.forward_panels = pack_panels(codes.rows, /*transposed=*/false);
  made.forward_scales = codes.rows.scales;
  made.dx_panels = pack_panels(codes.columns, /*transposed=*/false);
  made.dx_scales = codes.columns.scales;
  return made;
}

}  // namespace tessera::quant
