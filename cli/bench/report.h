#pragma once
// Results of `tessera bench`: one row per case and peer, ratios first, and the geometric mean of every pair.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tessera::cli {

struct BenchRow {
  std::string bench;      ///< "gemm", "linear", "step"
  std::string case_name;  ///< "4096x768x3072": rows x contraction x columns
  std::string ours, peer;
  double ours_median_s = 0, peer_median_s = 0;
  double operations = 0;  ///< 2 x multiply-accumulates of one run, for the printed speed
  std::int64_t ours_peak_bytes = 0, peer_peak_bytes = 0;  ///< largest resident set of the process; 0: not measured
  double ratio() const { return peer_median_s / ours_median_s; }
};

/// One row per pair (ours, peer) with case "geomean": geometric means of both medians over the pair's rows.
std::vector<BenchRow> geometric_means(const std::vector<BenchRow>& rows);

/// Machine, ISA, threads, huge pages: what a reader needs beside the numbers.
struct BenchSetting {
  std::string machine, isa;
  std::int64_t threads = 1;
  bool huge_pages = false;
  double peak_operations = 0;  ///< measured, per second; 0: unknown on this ISA
  std::string peak_name;       ///< the instruction that was measured
};
BenchSetting describe_setting(std::int64_t threads);

void print_setting(const BenchSetting& setting);
/// Table of all rows, then of the geometric means.
void print_rows(const std::vector<BenchRow>& rows);
/// Array of {bench, case, ours, peer, ours_median_s, peer_median_s, ratio}, geometric means last; with ours_peak_bytes
/// and peer_peak_bytes where they were measured.
nlohmann::ordered_json rows_json(const std::vector<BenchRow>& rows);
/// rows_json() as a file; atomic.
void write_rows(const std::string& path, const std::vector<BenchRow>& rows);

}  // namespace tessera::cli
