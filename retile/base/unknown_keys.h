// Keys of a JSON object that are not known.
#pragma once

#include <string_view>

#include "retile/base/input_errors.h"
#include "retile/base/json.h"

namespace retile {

// Adds a fault at each key that is not among `known` ("name, mesh, shape"). A key that is misspelt is renamed to what
// it was meant to be, so that no other fault follows from it.
void find_unknown_keys(const SourceText& source, JsonObject& object, std::string_view known, InputFaults& faults);

}  // namespace retile
