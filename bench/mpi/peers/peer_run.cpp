#include "bench/mpi/peers/peer_run.h"

#include <chrono>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"

namespace retile::bench {
namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class PeerRun final : public PreparedRun {
 public:
  PeerRun(MPI_Comm comm, TileMover mover) : world_(mpi::Communicator::duplicate(comm)), mover_(std::move(mover)) {}

  // As our engines time themselves: from the first rank's start to the last one's end.
  RunStatistics execute(std::span<const std::byte* const> sources, std::span<std::byte* const> targets) override {
    world_.barrier();
    std::int64_t times[] = {0, -now()};
    mover_(sources.front(), targets.front());
    times[0] = now();
    world_.most(times);
    RunStatistics statistics;
    statistics.seconds = static_cast<double>(times[0] + times[1]) * 1e-9;
    return statistics;
  }

  RunStatistics execute(Tiles&) override { throw InternalError("peers move buffers of their callers"); }

 private:
  const mpi::Communicator world_;
  const TileMover mover_;
};

}  // namespace

evaluation::Contender make_peer(std::string name, const Problem& problem, MPI_Comm comm,
                                std::function<TileMover()> make) {
  auto prepare = [comm, make = std::move(make)](Engine&) -> std::unique_ptr<PreparedRun> {
    return std::make_unique<PeerRun>(comm, make());
  };
  return {std::move(name), std::nullopt, problem.source().placement(), std::move(prepare)};
}

}  // namespace retile::bench
