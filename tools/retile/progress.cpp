#include "tools/retile/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace retile::command {
namespace {

constexpr std::chrono::milliseconds patience{1500};  // shorter work shows no bar
constexpr std::chrono::milliseconds redraw_interval{100};
constexpr std::size_t bar_width = 30;

bool is_visible = false;

}  // namespace

void clear_progress() {
  if (!is_visible) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  is_visible = false;
}

Progress::Progress(std::string action, std::size_t total)
    : action_(std::move(action)), total_(total), enabled_(total > 1 && isatty(STDERR_FILENO) != 0) {}

void Progress::advance() {
  ++done_;
  const Clock::time_point now = Clock::now();
  if (!enabled_ || now - start_ < patience || now - drawn_ < redraw_interval) return;
  drawn_ = now;
  is_visible = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = elapsed / static_cast<double>(done_) * static_cast<double>(total_ - done_);
  const std::size_t filled = bar_width * done_ / total_;
  const std::string bar = fmt::format("\r\033[K{} [{:=<{}}{:{}}] {}/{}, {:.0f} s left", action_, "", filled, "",
                                      bar_width - filled, done_, total_, left);
  std::fputs(bar.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace retile::command
