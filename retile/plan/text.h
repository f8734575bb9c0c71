// Plans as text for people, in the manner of the paper's figures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "retile/base/palette.h"
#include "retile/plan/plan.h"

namespace retile {

// The plan as text: type, step and cost, type, …, then the plan's cost and memory. It is a sequence file
// (collectives/sequence.h) with remarks as comments.
std::string to_string(const Plan& plan, const Palette& palette = plain);

// The plan's mesh, "{x: 4}", or both where the target's differs, "{x: 4} to {a: 2, b: 2}".
std::string describe_meshes(const Plan& plan);
// A text such as "cost 384 (paper, optimal over all plans), floor 224".
std::string to_string(const PlanCost& cost);
// A text such as "optimal over all plans", "lower bound 9 over wide plans".
std::string describe_proof(const PlanCost& cost);
// A text such as "no more than the larger of source and target".
std::string compare_peak(const PlanMemory& memory);

// The number with its digits in groups: 1234567 is "1,234,567".
std::string group_digits(std::int64_t number);

// A time in the unit that gives it one to three digits before the point: "1.25 ms", "0 s".
std::string duration_text(std::int64_t picoseconds);

// A text such as "takes 21.2 ms on four hosts, 18 ms of it host 2's link out; no plan takes less than 17 ms".
std::string describe_time(const PlanTime& time);
// A cost in the unit of the plan's model: "1,234", or a time.
std::string cost_text(const PlanCost& cost, std::int64_t value);

// The resource that takes the most time over all steps.
Wait longest_wait(const PlanTime& time);

// A number with its noun: "1 step", "2 steps".
std::string count_of(std::int64_t number, std::string_view noun);

}  // namespace retile
