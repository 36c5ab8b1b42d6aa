#include "tessera/train/metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <sstream>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/file.h"

namespace tessera::train {
namespace {

// JSON has no infinity: such a value is null.
nlohmann::json number(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

// The step of a whole, well-formed line.
std::optional<std::int64_t> line_step(std::string_view line) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return {};
  return json["step"].get<std::int64_t>();
}

// Lines of steps up to `last_step`; a killed process may have left its last line broken.
std::string kept_lines(std::string_view text, std::int64_t last_step) {
  std::string kept;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    const std::optional<std::int64_t> step = line_step(text.substr(begin, end - begin));
    if (step && *step <= last_step) kept += text.substr(begin, end + 1 - begin);
  }
  return kept;
}

}  // namespace

nlohmann::ordered_json to_json(const StepMetrics& m) {
  nlohmann::ordered_json json = {{"step", m.step},
                                 {"loss", number(m.loss)},
                                 {"lr", m.lr},
                                 {"grad_norm", number(m.grad_norm)},
                                 {"tokens", m.tokens},
                                 {"tokens_per_s", m.tokens_per_s()},
                                 {"step_s", m.step_s},
                                 {"intra_bytes", m.intra_bytes},
                                 {"inter_bytes", m.inter_bytes},
                                 {"peak_rss_bytes", m.peak_rss_bytes}};
  if (m.skipped) json["skipped"] = true;
  return json;
}

nlohmann::ordered_json to_json(const EvaluationMetrics& m) {
  return {{"step", m.step}, {"val_loss", number(m.val_loss)}, {"val_tokens", m.tokens}, {"eval_s", m.eval_s}};
}

nlohmann::ordered_json to_json(const Summary& s) {
  return {{"steps", s.steps},
          {"val_loss", s.val_loss ? number(*s.val_loss) : nlohmann::json()},
          {"tokens_per_s", s.tokens_per_s},
          {"peak_rss_bytes", s.peak_rss_bytes},
          {"intra_bytes_per_step", s.intra_bytes_per_step},
          {"inter_bytes_per_step", s.inter_bytes_per_step},
          {"recipe", s.recipe},
          {"world", s.world}};
}

RunStatistics read_statistics(const std::filesystem::path& metrics_path) {
  RunStatistics statistics;
  std::vector<double> rates;
  std::istringstream lines(read_file(metrics_path));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("tokens_per_s")) continue;
    rates.push_back(json["tokens_per_s"]);
    statistics.peak_rss_bytes = std::max<std::int64_t>(statistics.peak_rss_bytes, json["peak_rss_bytes"]);
    statistics.intra_bytes_per_step += json["intra_bytes"].get<std::int64_t>();
    statistics.inter_bytes_per_step += json["inter_bytes"].get<std::int64_t>();
  }
  if (rates.empty()) return statistics;
  const auto steps = static_cast<std::int64_t>(rates.size());
  std::nth_element(rates.begin(), rates.begin() + steps / 2, rates.end());
  statistics.tokens_per_s = rates[static_cast<std::size_t>(steps / 2)];
  statistics.intra_bytes_per_step /= steps;
  statistics.inter_bytes_per_step /= steps;
  return statistics;
}

MetricsLog::MetricsLog(std::filesystem::path path, std::optional<std::int64_t> resume_step) : path_(std::move(path)) {
  if (resume_step && path_exists(path_)) {
    const std::string text = read_file(path_), kept = kept_lines(text, *resume_step);
    if (kept != text) write_file(path_, kept);
  }
  const int existing = resume_step ? 0 : O_EXCL;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | existing, 0644);
  if (descriptor_ < 0) fail_with_errno("create");
}

MetricsLog::~MetricsLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void MetricsLog::append(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + '\n';
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  ssize_t written;
  do {
    written = ::write(descriptor_, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(text.size())) return;
  // A disk that fills takes part of the line: take it back.
  const int error = written < 0 ? errno : ENOSPC;
  if (written > 0 && before >= 0 && ::ftruncate(descriptor_, before) != 0) {
    // What is left of the line is dropped by the next resume.
  }
  errno = error;
  fail_with_errno("write");
}

void MetricsLog::sync() {
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL) fail_with_errno("flush");
}

void MetricsLog::fail_with_errno(const char* action) const {
  fail("cannot {} {}: {}", action, path_.string(), std::strerror(errno));
}

std::int64_t peak_rss_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace tessera::train
