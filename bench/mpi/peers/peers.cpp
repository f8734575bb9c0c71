#include "bench/mpi/peers/peers.h"

#include <memory>
#include <utility>
#include <vector>

#include "bench/mpi/alltoallw.h"
#include "retile/base/error.h"
#ifdef RETILE_HAS_SCALAPACK
#include "bench/mpi/peers/scalapack.h"
#endif
#ifdef RETILE_HAS_FFTW
#include "bench/mpi/peers/fftw.h"
#endif

namespace retile::bench {
namespace {

evaluation::Contender make_alltoallw_peer(const Problem& problem, MPI_Comm comm) {
  return make_peer("alltoallw", problem, comm, [problem, comm]() -> TileMover {
    const auto exchange = std::make_shared<Alltoallw>(problem, comm, OwnPart::copied);
    return [exchange](const std::byte* source, std::byte* target) { exchange->run(source, target); };
  });
}

using Maker = evaluation::Contender (*)(const Problem& problem, MPI_Comm comm);

const std::vector<std::pair<std::string, Maker>>& makers() {
  static const std::vector<std::pair<std::string, Maker>> all{
      {"alltoallw", make_alltoallw_peer},
#ifdef RETILE_HAS_SCALAPACK
      {"scalapack", make_scalapack_peer},
#endif
#ifdef RETILE_HAS_FFTW
      {"fftw", make_fftw_peer},
#endif
  };
  return all;
}

}  // namespace

std::string peer_names() {
  std::string names;
  for (const auto& [name, maker] : makers()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

bool is_peer(std::string_view name) {
  for (const auto& [known, maker] : makers()) {
    if (known == name) return true;
  }
  return false;
}

evaluation::Contender make_named_peer(std::string_view name, const Problem& problem, MPI_Comm comm) {
  for (const auto& [known, maker] : makers()) {
    if (known == name) return maker(problem, comm);
  }
  throw InternalError("no such peer");
}

}  // namespace retile::bench
