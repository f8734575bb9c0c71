// Moving tiles by something that is none of our engines: one rank per device.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "evaluation/contender.h"
#include "retile/planner/problem.h"

namespace retile::bench {

// Moves this rank's tile of the source to its tile of the target. Collective.
using TileMover = std::function<void(const std::byte* source, std::byte* target)>;

// `make` is called when the contender is prepared, and throws RuntimeError where the problem cannot be expressed.
evaluation::Contender make_peer(std::string name, const Problem& problem, MPI_Comm comm,
                                std::function<TileMover()> make);

}  // namespace retile::bench
