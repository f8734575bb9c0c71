// MPI from start to end, for a command that includes no MPI header: the rank's part in its job.
#pragma once

#include <memory>

#include "retile/engines/engine.h"
#include "retile/engines/mpi_options.h"

namespace retile::mpi {

// Starts MPI, and ends it. One per process.
class Session {
 public:
  // Throws RuntimeError where MPI does not start.
  Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // All ranks.
  const Processes& processes() const;
  // Collective.
  std::unique_ptr<Engine> make_engine(const MpiOptions& options) const;

  // For a rank that has failed: whether all ranks have, and call this, within a second. Failures that all ranks come to
  // alike are of the arguments; any other leaves ranks waiting for this one, and only abort() is left.
  bool have_all_failed() const;
  // Ends all ranks, with this exit status.
  [[noreturn]] void abort(int status) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retile::mpi
