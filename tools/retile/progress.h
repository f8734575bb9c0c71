// A progress bar on stderr, for work that takes more than a moment and a terminal that shows it. There is one at a
// time.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace retile::command {

// Takes the bar off the terminal, so that other output does not run into it; it comes back as the work goes on.
void clear_progress();

class Progress {
 public:
  Progress(std::string action, std::size_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;
  ~Progress() { clear_progress(); }

  void advance();
  void clear() { clear_progress(); }

 private:
  using Clock = std::chrono::steady_clock;

  std::string action_;
  std::size_t total_;
  std::size_t done_ = 0;
  bool enabled_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
};

}  // namespace retile::command
