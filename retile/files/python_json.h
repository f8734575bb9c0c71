// JSON as Python writes it, with NaN and Infinity as bare words, which JSON does not have: attributes hold them.
#pragma once

#include <string>

namespace retile::files {

// The text with strings of the same length instead of the bare words, so that places in it stay.
std::string hide_words(std::string text);
// The words again.
std::string show_words(std::string text);

}  // namespace retile::files
