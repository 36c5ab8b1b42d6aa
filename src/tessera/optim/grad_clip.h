#pragma once
// Clipping by the global gradient norm: scale = min(1, max_norm / norm). The scale is applied by the optimizer
// (AdamW::step's grad_scale), so gradients are not written.
#include <span>

namespace tessera::optim {

/// Sum of squares of all gradients in double: per gradient (kernels::sum_of_squares), then in the order given, so the
/// bits do not depend on threads. Not finite when any element is not. Shards add theirs over ranks before clip().
double sum_of_squares(std::span<const std::span<const float>> gradients);

struct Clip {
  double norm = 0;
  float scale = 1;     ///< what to multiply gradients by; 1 when the norm is not finite
  bool finite = true;  ///< whether the norm is: if not, the step must be skipped
};

/// Norm and scale of a sum of squares. `max_norm` above 0; infinity never clips. Error: max_norm is not above 0.
Clip clip(double sum_of_squares, double max_norm);

}  // namespace tessera::optim
