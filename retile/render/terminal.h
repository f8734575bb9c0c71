// Plans, rewritings and runs as text for people, in the manner of the paper's figures.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "retile/base/palette.h"
#include "retile/collectives/rewriting.h"
#include "retile/plan/plan.h"

namespace retile {

// Type, step and cost, type, …, then the plan's cost and memory: a sequence file (collectives/sequence.h) with remarks
// as comments.
std::string render_plan(const Plan& plan, const Palette& palette = plain);

// Normalizes, and prints every rewriting as it is made, as comments, then the result: the whole is a sequence file
// again.
void render_normalization(const Sequence& sequence, const std::function<void(const std::string&)>& print);

// 1234567 as "1,234,567".
std::string group_digits(std::int64_t number);

// "1 step", "2 steps".
std::string count_of(std::int64_t number, std::string_view noun);

}  // namespace retile
