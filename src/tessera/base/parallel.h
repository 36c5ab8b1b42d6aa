#pragma once
// The one way to use threads. base runs serially; the tensor layer installs at::parallel_for.
// Results must not depend on how a range is cut: reduce in fixed blocks, never per thread.
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace tessera {

/// Non-owning reference to a callable `void(begin, end)`; lives as long as the call it is passed to.
class RangeFunction {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, RangeFunction>)
  RangeFunction(F&& f)  // NOLINT(google-explicit-constructor): a parameter type, made at the call
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, std::int64_t begin, std::int64_t end) {
          (*static_cast<std::remove_reference_t<F>*>(object))(begin, end);
        }) {}
  void operator()(std::int64_t begin, std::int64_t end) const { call_(object_, begin, end); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, std::int64_t);
};

struct ParallelBackend {
  void (*parallel_for)(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction f);
  int (*num_threads)();
};

/// Replace the serial backend, once, at start-up.
void set_parallel_backend(ParallelBackend backend);

/// Run `f` over [begin, end) in pieces of at least `grain` indices; may call it once per thread or serially.
void parallel_for(std::int64_t begin, std::int64_t end, std::int64_t grain, RangeFunction f);

/// Threads that parallel_for may use; a hint for blocking, never for results.
int num_threads();

}  // namespace tessera
