// A progress bar on stderr, for work that takes more than a moment and a terminal that shows it.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace retile::command {

class Progress {
 public:
  Progress(std::string action, std::size_t total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;
  ~Progress();  // clears the bar

  void advance();
  // Takes the bar off the terminal, so that other output does not run into it.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string action_;
  std::size_t total_;
  std::size_t done_ = 0;
  bool enabled_;
  bool visible_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
};

}  // namespace retile::command
