#include "tessera/train/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

namespace tessera::train {
namespace {

constexpr double kRedrawSeconds = 0.1;  // ten times a second reads as motion
constexpr int kSmoothSteps = 20;        // time left follows the mean of about so many steps

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int terminal_width(std::FILE* stream) {
  winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double share, int columns) {
  const int full = static_cast<int>(std::lround(share * columns));
  std::string text = " [";
  for (int i = 0; i < columns; ++i) text += i < full ? "█" : "░";
  return text + "]";
}

}  // namespace

std::string format_rate(double per_second) {
  if (per_second >= 999950) return fmt::format("{:.2f}M", per_second / 1e6);
  if (per_second >= 999.5) return fmt::format("{:.1f}k", per_second / 1e3);
  return fmt::format("{:.0f}", per_second);
}

std::string format_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::lround(std::max(seconds, 0.0)));
  if (whole >= 3600) return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
  if (whole >= 60) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}s", whole);
}

std::string progress_line(const ProgressView& view, int width) {
  const std::string head = fmt::format("step {}/{}", view.step, view.steps);
  // By falling importance; what does not fit is left out, and everything after it.
  std::vector<std::string> parts = {fmt::format("loss {:.4f}", view.loss)};
  parts.push_back(format_rate(view.tokens_per_s) + " tok/s");
  if (view.seconds_left) parts.push_back(format_duration(*view.seconds_left) + " left");
  if (view.val_loss) parts.push_back(fmt::format("val {:.4f}", *view.val_loss));
  std::string tail;
  for (const std::string& part : parts) {
    if (static_cast<int>(head.size() + tail.size() + 2 + part.size()) > width) break;
    tail += "  " + part;
  }
  constexpr int kFrame = 3, kLeastBar = 8, kMostBar = 30;  // " [" and "]"
  const int room = std::min(width - static_cast<int>(head.size() + tail.size()) - kFrame, kMostBar);
  const double share = view.steps > 0 ? static_cast<double>(view.step) / static_cast<double>(view.steps) : 0;
  return room >= kLeastBar ? head + bar(share, room) + tail : head + tail;
}

Progress::Progress(std::FILE* stream, std::int64_t first_step, std::int64_t steps, std::int64_t log_every)
    : stream_(stream), terminal_(::isatty(::fileno(stream)) == 1), log_every_(log_every) {
  view_.step = first_step;
  view_.steps = steps;
}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stream_);
  std::fflush(stream_);
}

void Progress::step(const StepMetrics& metrics) {
  smooth_step_s_ += (metrics.step_s - smooth_step_s_) / (smooth_step_s_ == 0 ? 1 : kSmoothSteps);
  view_.step = metrics.step;
  if (!metrics.skipped) view_.loss = metrics.loss;
  view_.tokens_per_s = smooth_step_s_ > 0 ? static_cast<double>(metrics.tokens) / smooth_step_s_ : 0;
  view_.seconds_left = static_cast<double>(view_.steps - view_.step) * smooth_step_s_;
  const bool last = view_.step == view_.steps;
  if (terminal_) {
    if (last || now() - last_draw_s_ >= kRedrawSeconds) draw();
  } else if (log_every_ > 0 && (view_.step % log_every_ == 0 || last)) {
    fmt::print(stream_, "step {}/{}  loss {:.4f}  lr {:.3g}  grad norm {:.3f}  {} tok/s  {} left\n", view_.step,
               view_.steps, metrics.loss, metrics.lr, metrics.grad_norm, format_rate(view_.tokens_per_s),
               format_duration(*view_.seconds_left));
    std::fflush(stream_);
  }
}

void Progress::evaluation(const EvaluationMetrics& metrics) {
  view_.val_loss = metrics.val_loss;
  message(fmt::format("step {}/{}  val loss {:.4f}  perplexity {:.2f}  ({} tokens in {:.1f} s)", metrics.step,
                      view_.steps, metrics.val_loss, std::exp(metrics.val_loss), metrics.tokens, metrics.eval_s));
}

void Progress::message(const std::string& text) {
  clear();
  fmt::print(stream_, "{}\n", text);
  if (terminal_ && view_.step > 0) draw();
  std::fflush(stream_);
}

// The line is overwritten, not erased first, so that it does not flicker; what is left of a longer one is erased
// behind.
void Progress::draw() {
  fmt::print(stream_, "\r{}\x1b[K", progress_line(view_, terminal_width(stream_) - 1));
  std::fflush(stream_);
  drawn_ = true;
  last_draw_s_ = now();
}

void Progress::clear() {
  if (drawn_) std::fputs("\r\x1b[K", stream_);
  drawn_ = false;
}

}  // namespace tessera::train
