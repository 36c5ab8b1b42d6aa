#pragma once
// SIGINT (Ctrl-C) and SIGTERM as a request to stop: the first sets a flag, the second ends the process at once.

namespace tessera::train {

/// Handlers installed for the object's lifetime; at most one object at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The first signal received, or 0.
  int received() const;
};

}  // namespace tessera::train
