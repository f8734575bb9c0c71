// UTF-8, as far as diagnostics and names need it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace retile {

// The text's characters in order. A byte that is not part of valid UTF-8 is one character, "?".
std::vector<std::string> split_characters(std::string_view text);

int count_characters(std::string_view text);

// The text on one line: tabs, control and format characters become single spaces, so that carets stay in place
// and a user's text cannot steer the terminal, nor reorder what it shows.
std::string printable(std::string_view text);

// Whether it is valid UTF-8 without characters that printable() replaces.
bool is_printable(std::string_view text);

bool is_valid_utf8(std::string_view text);

}  // namespace retile
