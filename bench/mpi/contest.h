// Contenders that take turns on all ranks, timed as an inner loop calls them: one call after the other.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "retile/engines/mpi/communicator.h"

namespace retile::bench {

struct ContestArguments {
  int repetitions = 21;
  int calls = 200;  // that are timed at once
};

void declare_contest(CLI::App& app, ContestArguments& arguments);

struct Contender {
  std::string name;
  std::function<void()> call;
};

// Microseconds of a call, by contender and repetition: from the first rank's start to the last one's end, on the clock
// that all ranks of a host have. A rank's own duration says little where ranks outnumber cores. Collective.
using ContestTimes = std::vector<std::vector<double>>;
ContestTimes time_in_turn(const std::vector<Contender>& contenders, const ContestArguments& arguments,
                          const mpi::Communicator& world);

// A table: the title with the first contender's median, then a line for each other one with its median and how many
// times the first one's it takes, the median of all repetitions and between which numbers half of them lie.
std::string contest_text(const std::string& title, const std::vector<Contender>& contenders, const ContestTimes& times);

}  // namespace retile::bench
