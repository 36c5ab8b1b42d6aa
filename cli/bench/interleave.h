#pragma once
// Fair timing of several ways to do one thing: A B C A B C ..., so that a machine whose speed drifts slows all alike.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::cli {

struct Contender {
  std::string name;
  std::function<void()> run;
};

struct TimingOptions {
  std::int64_t rounds = 15;      ///< timed samples of each contender
  double sample_seconds = 2e-3;  ///< a shorter run is repeated until a sample lasts this long
};

/// Median seconds of one run of each contender, after a warm-up of each.
std::vector<double> interleaved_medians(const std::vector<Contender>& contenders, const TimingOptions& options);

/// Of at least one value; the mean of the middle two for an even number.
double median(std::vector<double> values);

}  // namespace tessera::cli
