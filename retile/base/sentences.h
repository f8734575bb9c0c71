// Several things that are wrong, told in one line.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace retile {

// "one; another; and 3 more".
class Sentences {
 public:
  // The most sentences that are reported.
  static constexpr std::size_t most_told = 20;

  void add(const std::string& sentence) {
    if (++count_ <= most_told) text_ += (count_ == 1 ? "" : "; ") + sentence;
  }
  bool empty() const { return count_ == 0; }
  std::string text() const {
    return count_ <= most_told ? text_ : fmt::format("{}; and {} more", text_, count_ - most_told);
  }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

}  // namespace retile
