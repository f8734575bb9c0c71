// Plans as text for people, in the manner of the paper's figures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "retile/base/palette.h"
#include "retile/plan/plan.h"

namespace retile {

// Type, step and cost, type, …, then the plan's cost and memory: a sequence file (collectives/sequence.h) with remarks
// as comments.
std::string to_string(const Plan& plan, const Palette& palette = plain);

// 1234567 as "1,234,567".
std::string group_digits(std::int64_t number);

// "1 step", "2 steps".
std::string count_of(std::int64_t number, std::string_view noun);

}  // namespace retile
