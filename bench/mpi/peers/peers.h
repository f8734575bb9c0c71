// The peers that are built here, by name.
#pragma once

#include <string>
#include <string_view>

#include "bench/mpi/peers/peer_run.h"

namespace retile::bench {

// Those of the evaluation besides. "scalapack" and "fftw" only where their libraries were found.
std::string peer_names();
bool is_peer(std::string_view name);

evaluation::Contender make_named_peer(std::string_view name, const Problem& problem, MPI_Comm comm);

}  // namespace retile::bench
