#include "bench/interleave.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tessera::cli {
namespace {

double seconds_of(const std::function<void()>& run, std::int64_t repeats) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < repeats; ++i) run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(repeats);
}

}  // namespace

double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + half, values.end());
  if (values.size() % 2 == 1) return values[half];
  return (values[half] + *std::max_element(values.begin(), values.begin() + half)) / 2;
}

std::vector<double> interleaved_medians(const std::vector<Contender>& contenders, const TimingOptions& options) {
  std::vector<std::int64_t> repeats;
  for (const Contender& contender : contenders) {
    contender.run();  // first touch, caches of generated code and packed weights
    const double once = seconds_of(contender.run, 1);
    repeats.push_back(std::clamp<std::int64_t>(std::llround(std::ceil(options.sample_seconds / once)), 1, 1000));
  }
  std::vector<std::vector<double>> samples(contenders.size());
  for (std::int64_t round = 0; round < options.rounds; ++round)
    for (std::size_t i = 0; i < contenders.size(); ++i) samples[i].push_back(seconds_of(contenders[i].run, repeats[i]));
  std::vector<double> medians;
  for (auto& sample : samples) medians.push_back(median(std::move(sample)));
  return medians;
}

}  // namespace tessera::cli
