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

Progress::Progress(std::string action, std::int64_t total, bool is_bytes)
    : action_(std::move(action)),
      total_(total),
      is_bytes_(is_bytes),
      enabled_(total > 1 && isatty(STDERR_FILENO) != 0) {}

Progress::Progress(std::string action, std::size_t total)
    : Progress(std::move(action), static_cast<std::int64_t>(total), false) {}

Progress::Progress(std::string action, Bytes total) : Progress(std::move(action), total.count, true) {}

void Progress::reach(std::int64_t done) {
  done_ = done;
  const Clock::time_point now = Clock::now();
  if (!enabled_ || now - start_ < patience || now - drawn_ < redraw_interval) return;
  drawn_ = now;
  is_visible = true;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  const double left = elapsed / static_cast<double>(done_) * static_cast<double>(total_ - done_);
  const auto filled = static_cast<std::size_t>(static_cast<double>(bar_width) * static_cast<double>(done_) /
                                               static_cast<double>(total_));
  constexpr double megabyte = 1e6;
  const std::string figures =
      is_bytes_ ? fmt::format("{:.0f}/{:.0f} MB, {:.0f} MB/s", static_cast<double>(done_) / megabyte,
                              static_cast<double>(total_) / megabyte, static_cast<double>(done_) / megabyte / elapsed)
                : fmt::format("{}/{}", done_, total_);
  const std::string bar = fmt::format("\r\033[K{} [{:=<{}}{:{}}] {}, {:.0f} s left", action_, "", filled, "",
                                      bar_width - filled, figures, left);
  std::fputs(bar.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace retile::command
