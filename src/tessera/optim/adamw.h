#pragma once
// AdamW over named spans, whole parameters or the shards of one rank. The arithmetic is kernels/adamw's.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/base/aligned_buffer.h"

namespace tessera::optim {

struct AdamWOptions {
  float beta1 = 0.9f, beta2 = 0.95f;  ///< in [0, 1)
  float eps = 1e-8f;                  ///< above 0
  float weight_decay = 0.1f;          ///< at least 0; of the parameters that decay
};

/// What the optimizer knows of a parameter before it sees it.
struct ParameterInfo {
  std::string name;
  std::int64_t size = 0;  ///< elements held here
  bool decay = false;     ///< see decays()
};

/// A parameter in one step.
struct Parameter {
  std::string name;
  std::span<float> value;
  std::span<const float> gradient;
};

/// Whether a parameter of this shape decays: matrices do, vectors (biases, norms) do not.
inline bool decays(std::span<const std::int64_t> shape) { return shape.size() >= 2; }

/// First and second moment of one parameter, to be saved or loaded in place.
struct Moments {
  std::span<float> m, v;
};

class AdamW {
 public:
  /// State starts at zero. Error: an option out of range, two parameters of one name, a negative size.
  AdamW(AdamWOptions options, std::vector<ParameterInfo> parameters);

  /// Update every parameter in place; order does not matter. Gradients are multiplied by `grad_scale` first.
  /// Error, before anything is written: a parameter missing, unknown, given twice or of another size; `lr` or
  /// `grad_scale` not finite or negative.
  void step(std::span<const Parameter> parameters, float lr, float grad_scale = 1);

  const AdamWOptions& options() const { return options_; }
  const std::vector<ParameterInfo>& parameters() const { return parameters_; }
  /// Error: unknown name.
  Moments moments(std::string_view name);
  /// Steps taken; with the moments, all there is to save.
  std::int64_t steps() const { return steps_; }
  /// Error: negative.
  void set_steps(std::int64_t steps);

 private:
  std::size_t index_of(std::string_view name) const;
  // Index of each given parameter, after all checks.
  std::vector<std::size_t> match(std::span<const Parameter> parameters) const;

  AdamWOptions options_;
  std::vector<ParameterInfo> parameters_;
  std::unordered_map<std::string, std::size_t> index_;
  std::vector<AlignedBuffer<float>> m_, v_;  // in the order of parameters_
  std::int64_t steps_ = 0;
};

}  // namespace tessera::optim
