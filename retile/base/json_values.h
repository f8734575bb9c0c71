// Texts with many values of JSON, as files of lines have them.
#pragma once

#include <vector>

#include "retile/base/diagnostic.h"

namespace retile {

// The values of a text, one after the other: a line each, or several where brackets go on. A value's text is whole
// lines, so that its columns are those of the file. Nothing is parsed: a broken value is found when it is.
std::vector<SourceText> split_values(const SourceText& file);

// The values of a text, each of them an object. Throws InputError where the text is of another kind; `what` is the word
// for the values in its message.
std::vector<SourceText> split_objects(const SourceText& file, const std::string& what);

}  // namespace retile
