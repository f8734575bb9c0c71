// A second opinion on plans, by brute force on the elements themselves: it shares no code with the verifier.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace retile::test {

// Follows a plan given as JSON with each device's set of elements. Says where a device would need an element that
// nobody gave it, or why the plan does not end in its target; nothing for a plan that is physically right.
std::optional<std::string> replay_plan(const nlohmann::json& plan);

}  // namespace retile::test
