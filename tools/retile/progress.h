// A progress bar on a terminal's stderr, for work that takes more than a moment. There is one at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace retile::command {

// Removes the bar from the terminal, so that other output does not run into it; it comes back as the work continues.
void clear_progress();

class Progress {
 public:
  // Work that is counted in bytes: its rate is shown, too.
  struct Bytes {
    std::int64_t count = 0;
  };

  Progress(std::string action, std::size_t total);
  Progress(std::string action, Bytes total);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;
  ~Progress() { clear_progress(); }

  void advance() { reach(done_ + 1); }
  // Says how much of the work is done.
  void reach(std::int64_t done);
  void clear() { clear_progress(); }

 private:
  Progress(std::string action, std::int64_t total, bool is_bytes);

  using Clock = std::chrono::steady_clock;

  std::string action_;
  std::int64_t total_;
  std::int64_t done_ = 0;
  bool is_bytes_;
  bool enabled_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
};

}  // namespace retile::command
