// State that all runs of an MPI engine share. Runs outlive the engine.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "retile/engines/backend.h"
#include "retile/engines/mpi/collectives.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/host.h"
#include "retile/engines/mpi_options.h"

namespace retile::mpi {

// Throws RuntimeError in all processes where they have different options, or one's are wrong. Collective.
void require_same_options(const Processes& processes, const MpiOptions& options);

class Job final : private FailureWatch {
 public:
  // Collective.
  Job(MPI_Comm comm, MpiOptions job_options);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job() override;

  // Whether this rank and another one see each other's shared memory, and use it.
  bool is_near(int rank) const {
    return rank != world.rank() && options.transport == Transport::automatic && host.is_shared() &&
           host.member(rank).has_value();
  }

  // From the first rank's start to the last one's end, see now(). Collective. Clocks are compared within a host only:
  // those of different hosts have nothing in common.
  double seconds_between(std::int64_t start, std::int64_t end) const;

  // A tag for messages of one prepared stage. All ranks prepare the same stages in the same order, so they agree. Tags
  // keep runs apart that are under way at once; communicators would do so too, but making one is collective and slow,
  // and there are few.
  int new_tag();

  // --- Runs under way. See Backend.

  void finish(Work& work);
  void begin(Work& work) { begun_.push_back(&work); }
  void end(Work& work) { std::erase(begun_, &work); }
  bool advance_begun();
  void retire(std::shared_ptr<PreparedStreams> streams, Buffer staging);
  void free_retired();

  // --- Failures. A rank that fails sends its sentence to all others. They look for it while they wait.

  void tell_failure(std::string_view text) noexcept;
  const char* failure() const { return failure_[0] == '\0' ? nullptr : failure_; }
  void require_no_earlier_failure() const override;
  void look_for_failure() override;

  const MpiOptions options;
  const Communicator world;
  const Host host;
  TeamCommunicators teams;

 private:
  // Takes in what another rank has told, if one has.
  void receive_failure();

  std::int64_t tags_ = 0;
  std::int64_t tag_limit_ = 32767;
  std::vector<Work*> begun_;
  std::vector<std::pair<std::shared_ptr<PreparedStreams>, Buffer>> retired_;
  char failure_[1024] = "";
};

}  // namespace retile::mpi
