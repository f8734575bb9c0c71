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

// Parts of it: "{x: 4}", and where the target's mesh is another, "{x: 4} to {a: 2, b: 2}".
std::string describe_meshes(const Plan& plan);
// "cost 384 (paper, optimal over all plans), floor 224".
std::string to_string(const PlanCost& cost);
// "optimal over all plans", "lower bound 9 over wide plans".
std::string describe_proof(const PlanCost& cost);
// "no more than the larger of source and target".
std::string compare_peak(const PlanMemory& memory);

// 1234567 as "1,234,567".
std::string group_digits(std::int64_t number);

// A time in the unit that gives it one to three digits before the point: "1.25 ms", "0 s".
std::string duration_text(std::int64_t picoseconds);

// "takes 21.2 ms on four hosts, 18 ms of it host 2's link out; no plan takes less than 17 ms".
std::string describe_time(const PlanTime& time);
// A cost of the plan's model: "1,234", or a time.
std::string cost_text(const PlanCost& cost, std::int64_t value);

// The resource that most of the time is spent on, over all steps.
Wait longest_wait(const PlanTime& time);

// "1 step", "2 steps".
std::string count_of(std::int64_t number, std::string_view noun);

}  // namespace retile
