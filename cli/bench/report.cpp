#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/huge_pages.h"
#include "bench/peak.h"
#include "table.h"
#include "tessera/base/file.h"
#include "tessera/base/isa.h"

namespace tessera::cli {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

std::string speed(double operations, double seconds) {
  return operations == 0 ? "-" : fmt::format("{:.0f}", operations / seconds / 1e9);
}

}  // namespace

std::vector<BenchRow> geometric_means(const std::vector<BenchRow>& rows) {
  std::vector<BenchRow> means;
  std::vector<std::int64_t> counts;
  for (const BenchRow& row : rows) {
    std::size_t at = 0;
    while (at < means.size() && (means[at].ours != row.ours || means[at].peer != row.peer)) ++at;
    if (at == means.size()) {
      means.push_back({.bench = row.bench, .case_name = "geomean", .ours = row.ours, .peer = row.peer});
      counts.push_back(0);
    }
    means[at].ours_median_s += std::log(row.ours_median_s);
    means[at].peer_median_s += std::log(row.peer_median_s);
    ++counts[at];
  }
  for (std::size_t i = 0; i < means.size(); ++i) {
    means[i].ours_median_s = std::exp(means[i].ours_median_s / static_cast<double>(counts[i]));
    means[i].peer_median_s = std::exp(means[i].peer_median_s / static_cast<double>(counts[i]));
  }
  return means;
}

BenchSetting describe_setting(std::int64_t threads) {
  BenchSetting setting{cpu_name(), describe_isa(), threads, huge_pages_enabled(), 0, ""};
  setting.peak_operations = measure_peak(enabled_isa());
  setting.peak_name = peak_instruction(enabled_isa());
  return setting;
}

void print_setting(const BenchSetting& setting) {
  fmt::print("machine    {}\nISA        {}\nthreads    {}\nhuge pages {}\n", setting.machine, setting.isa,
             setting.threads,
             setting.huge_pages ? "on (GLIBC_TUNABLES=glibc.malloc.hugetlb=1, set for this run if it was not)" : "off");
  if (setting.peak_operations > 0)
    fmt::print("peak       {:.0f} GOP/s ({}, all threads, operands in registers)\n", setting.peak_operations / 1e9,
               setting.peak_name);
  fmt::print("\nratio = peer / ours: above 1, ours is faster. Interleaved medians. GOP/s: 2 x multiply-accumulates.\n");
}

void print_rows(const std::vector<BenchRow>& rows) {
  for (const bool means : {false, true}) {
    const std::vector<BenchRow> shown = means ? geometric_means(rows) : rows;
    if (means && shown.size() == rows.size()) continue;  // one case: its rows are their own means
    const bool memory =
        std::any_of(shown.begin(), shown.end(), [](const BenchRow& r) { return r.ours_peak_bytes > 0; });
    std::vector<std::string> header{"ratio", "case", "ours", "peer", "ours", "peer", "ours GOP/s", "peer GOP/s"};
    if (memory) header.insert(header.end(), {"ours memory", "peer memory"});
    Table table(header);
    for (const BenchRow& row : shown) {
      std::vector<std::string> cells{fmt::format("{:.2f}", row.ratio()),
                                     row.case_name,
                                     row.ours,
                                     row.peer,
                                     format_seconds(row.ours_median_s),
                                     format_seconds(row.peer_median_s),
                                     speed(row.operations, row.ours_median_s),
                                     speed(row.operations, row.peer_median_s)};
      if (memory) cells.insert(cells.end(), {format_bytes(row.ours_peak_bytes), format_bytes(row.peer_peak_bytes)});
      table.add(cells);
    }
    fmt::print("\n{}", table.text());
  }
}

nlohmann::ordered_json rows_json(const std::vector<BenchRow>& rows) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  std::vector<BenchRow> all = rows;
  for (BenchRow& mean : geometric_means(rows)) all.push_back(std::move(mean));
  for (const BenchRow& row : all) {
    array.push_back({{"bench", row.bench},
                     {"case", row.case_name},
                     {"ours", row.ours},
                     {"peer", row.peer},
                     {"ours_median_s", row.ours_median_s},
                     {"peer_median_s", row.peer_median_s},
                     {"ratio", row.ratio()}});
    if (row.ours_peak_bytes > 0) {
      array.back()["ours_peak_bytes"] = row.ours_peak_bytes;
      array.back()["peer_peak_bytes"] = row.peer_peak_bytes;
    }
  }
  return array;
}

void write_rows(const std::string& path, const std::vector<BenchRow>& rows) {
  write_file(path, rows_json(rows).dump(2) + "\n");
}

}  // namespace tessera::cli
