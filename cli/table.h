#pragma once
// Plain-text output: aligned tables and readable quantities.
#include <cstdint>
#include <string>
#include <vector>

namespace tessera::cli {

/// Columns padded to their widest cell; cells that begin with a digit or sign are aligned to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
  /// One cell per column of the header.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.size() == 1; }
  /// All lines, header first, each ended by a line break.
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// "1,234,567"
std::string format_count(std::int64_t count);
/// "980 B", "1.18 MB" (powers of ten)
std::string format_bytes(std::int64_t bytes);
/// "812 ns", "4.21 ms", "3.0 s"
std::string format_seconds(double seconds);

}  // namespace tessera::cli
