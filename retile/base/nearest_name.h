// "Did you mean": the known name that a wrong one was probably meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace retile {

// The name that takes the fewest edits, without regard to case; none where all are too far away.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known);

// The names of a list, with commas or spaces between them.
std::vector<std::string> split_names(std::string_view text);

}  // namespace retile
