// What all runs of an MPI engine share. They outlive the engine.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <utility>

#include "retile/engines/backend.h"
#include "retile/engines/mpi/collectives.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/host.h"
#include "retile/engines/mpi_options.h"

namespace retile::mpi {

struct Job {
  Job(MPI_Comm comm, MpiOptions job_options)
      : options(std::move(job_options)),
        world(Communicator::duplicate(comm)),
        host(world, options.hosts, options.reading),
        teams(world) {}

  // From the first rank's start, see now(), to the last one's end. Collective. Clocks are compared within a host only:
  // those of different hosts have nothing in common.
  double seconds_since(std::int64_t start) const {
    std::int64_t times[] = {now(), -start};
    host.team().most(times);
    std::int64_t longest[] = {times[0] + times[1]};
    world.most(longest);
    return static_cast<double>(longest[0]) * 1e-9;
  }

  const MpiOptions options;
  const Communicator world;
  Host host;
  TeamCommunicators teams;
};

}  // namespace retile::mpi
