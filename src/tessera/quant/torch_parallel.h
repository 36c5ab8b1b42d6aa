#pragma once
// Gives base's parallel_for the threads of torch's pool, so that a process has one set of threads.

namespace tessera::quant {

/// Install the backend; called by every entry of the tensor layer, cheap after the first time.
void use_torch_threads();

}  // namespace tessera::quant
