#pragma once
// "Did you mean ...": the known name closest to a mistyped one.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

/// Levenshtein distance: insertions, deletions and replacements that turn `a` into `b`; a swap of neighbours counts 1.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

/// The closest of `known` (first of equals), or "" when none is within half of the name's length.
template <typename Names>
std::string nearest_name(std::string_view name, const Names& known) {
  std::string nearest;
  std::size_t best = name.size() / 2 + 1;
  for (const auto& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) best = distance, nearest = std::string(candidate);
  }
  return nearest;
}

/// " (did you mean 'width'?)", or "" when nothing is close.
template <typename Names>
std::string did_you_mean(std::string_view name, const Names& known) {
  const std::string nearest = nearest_name(name, known);
  return nearest.empty() ? "" : " (did you mean '" + nearest + "'?)";
}

}  // namespace tessera
