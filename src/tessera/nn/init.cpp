#include "tessera/nn/init.h"

#include <cmath>
#include <numbers>

#include "tessera/base/parallel.h"
#include "tessera/base/philox.h"
#include "tessera/quant/torch_parallel.h"

namespace tessera::nn {

void init_normal(const torch::Tensor& parameter, double std, std::uint64_t seed, std::string_view name,
                 std::int64_t first) {
  TORCH_CHECK_TYPE(parameter.scalar_type() == torch::kFloat && parameter.is_contiguous(), "parameter to initialize is ",
                   parameter.scalar_type(), ", expected contiguous float32");
  quant::use_torch_threads();
  const PhiloxKey key = philox_key(seed, name, "init");
  const torch::NoGradGuard no_grad;
  float* values = parameter.mutable_data_ptr<float>();
  parallel_for(0, parameter.numel(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto index = static_cast<std::uint64_t>(first + i);
      const PhiloxBlock word =
          philox(key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32)});
      const double u1 = (word[0] + 0.5) * 0x1p-32, u2 = (word[1] + 0.5) * 0x1p-32;
      values[i] = static_cast<float>(std * std::sqrt(-2 * std::log(u1)) * std::cos(2 * std::numbers::pi * u2));
    }
  });
  parameter.unsafeGetTensorImpl()->bump_version();
}

}  // namespace tessera::nn
