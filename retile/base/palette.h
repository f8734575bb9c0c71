// Colours of text for people: escape sequences of terminals.
#pragma once

#include <string>
#include <string_view>

namespace retile {

// How parts of a text look.
struct Palette {
  std::string_view heading;
  std::string_view step;
  std::string_view error;
  std::string_view note;
  std::string_view hint;

  // The text in a colour of this palette, and what follows it without.
  static std::string paint(std::string_view color, std::string_view text) {
    return color.empty() ? std::string(text) : std::string(color).append(text).append("\033[0m");
  }
};

inline constexpr Palette plain{};
inline constexpr Palette colored{"\033[1m", "\033[36m", "\033[1;31m", "\033[1;34m", "\033[1;32m"};

}  // namespace retile
