// Tables and JSON of `tessera bench step`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/step.h"
#include "table.h"

namespace tessera::cli {
namespace {

// Part of the step that integer products would take at the machine's peak.
double peak_share(const StepContender& contender, const StepResult& result, double peak) {
  return contender.integer_operations / (result.median_s() * peak);
}

double tokens_per_second(const StepContender& contender, const StepResult& result) {
  return static_cast<double>(contender.model.tokens()) / result.median_s();
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

void print_speed(const std::vector<StepContender>& contenders, const std::vector<StepResult>& results) {
  Table table({"contender", "case", "threads", "tokens/s", "step", "fastest", "slowest", "peak memory", "loss"});
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const StepContender& contender = contenders[i];
    const StepResult& result = results[i];
    const auto [fastest, slowest] = std::minmax_element(result.step_s.begin(), result.step_s.end());
    table.add({contender.name, contender.model.case_name(), std::to_string(contender.threads),
               format_count(static_cast<std::int64_t>(tokens_per_second(contender, result))),
               format_seconds(result.median_s()), format_seconds(*fastest), format_seconds(*slowest),
               format_bytes(result.peak_rss_bytes),
               fmt::format("{:.3f} -> {:.3f}", result.first_loss, result.last_loss)});
  }
  fmt::print("\n{}", table.text());
}

// Parts of ours, largest first by their sum over the contenders.
void print_parts(const std::vector<StepContender>& contenders, const std::vector<StepResult>& results, double peak) {
  std::vector<std::string> header{"part of the step"};
  std::map<std::string, double> sums;
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (results[i].parts.empty()) continue;
    header.push_back(contenders[i].name);
    for (const auto& [part, seconds] : results[i].parts) sums[part] += seconds / results[i].parts_step_s;
  }
  if (sums.empty()) return;
  std::vector<std::string> order;
  for (const auto& [part, sum] : sums)
    if (sum > 0) order.push_back(part);
  std::sort(order.begin(), order.end(), [&](const std::string& a, const std::string& b) { return sums[a] > sums[b]; });
  Table table(header);
  for (const std::string& part : order) {
    std::vector<std::string> cells{part};
    for (const StepResult& result : results)
      if (!result.parts.empty())
        cells.push_back(fmt::format("{}  {}", percent(result.parts.at(part) / result.parts_step_s),
                                    format_seconds(result.parts.at(part))));
    table.add(cells);
  }
  std::vector<std::string> operations{"integer operations"}, shares{"step at the machine's integer peak"};
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (results[i].parts.empty()) continue;
    operations.push_back(fmt::format("{:.3g} GOP", contenders[i].integer_operations / 1e9));
    shares.push_back(peak > 0 ? percent(peak_share(contenders[i], results[i], peak)) : "-");
  }
  table.add(operations);
  table.add(shares);
  fmt::print(
      "\nParts are timed in steps of their own. Backward of attention and GELU is counted with their forward.\n{}",
      table.text());
}

}  // namespace

std::vector<BenchRow> step_rows(const std::vector<StepContender>& ours, const std::vector<StepResult>& our_results,
                                const std::vector<StepContender>& peers, const std::vector<StepResult>& peer_results) {
  std::vector<BenchRow> rows;
  for (std::size_t i = 0; i < ours.size(); ++i)
    for (std::size_t j = 0; j < peers.size(); ++j)
      rows.push_back({.bench = "step",
                      .case_name = ours[i].model.case_name(),
                      .ours = ours[i].name,
                      .peer = peers[j].name,
                      .ours_median_s = our_results[i].median_s(),
                      .peer_median_s = peer_results[j].median_s(),
                      .operations = ours[i].model.block_operations() + ours[i].model.head_operations(),
                      .ours_peak_bytes = our_results[i].peak_rss_bytes,
                      .peer_peak_bytes = peer_results[j].peak_rss_bytes});
  return rows;
}

void print_step_results(const std::vector<StepContender>& contenders, const std::vector<StepResult>& results,
                        double peak) {
  print_speed(contenders, results);
  print_parts(contenders, results, peak);
}

nlohmann::ordered_json step_results_json(const std::vector<StepContender>& contenders,
                                         const std::vector<StepResult>& results, double peak) {
  nlohmann::ordered_json array = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const StepContender& contender = contenders[i];
    const StepResult& result = results[i];
    nlohmann::ordered_json row = {{"bench", "step contender"},
                                  {"case", contender.model.case_name()},
                                  {"name", contender.name},
                                  {"threads", contender.threads},
                                  {"median_s", result.median_s()},
                                  {"step_s", result.step_s},
                                  {"tokens_per_s", tokens_per_second(contender, result)},
                                  {"peak_rss_bytes", result.peak_rss_bytes},
                                  {"first_loss", result.first_loss},
                                  {"last_loss", result.last_loss}};
    if (!result.parts.empty()) {
      row["parts"] = result.parts;
      row["parts_step_s"] = result.parts_step_s;
      row["integer_operations"] = contender.integer_operations;
      row["peak_operations_per_s"] = peak;
      row["peak_share"] = peak > 0 ? peak_share(contender, result, peak) : 0;
    }
    array.push_back(std::move(row));
  }
  return array;
}

}  // namespace tessera::cli
