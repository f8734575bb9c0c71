// Scenes for tests of pictures, and what is true of every picture.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "retile/drawing/scene.h"
#include "tests/support/layouts.h"

namespace retile::test {

PlanOptions by(PlannerKind planner);

// The scene of the plan that is made for the problem, in f32.
drawing::Scene scene_of(const Problem& problem, const PlanOptions& options = {});
// For example "a=2,b=2", "[1{a}2]", "[1{b}2]".
drawing::Scene scene_of(const char* mesh, const char* source, const char* target, const PlanOptions& options = {});

// What is wrong with the text as XML, with what is near; nothing where it is well-formed.
std::optional<std::string> find_markup_fault(std::string_view text);

// How often the part occurs.
int count_of_part(std::string_view text, std::string_view part);

}  // namespace retile::test
