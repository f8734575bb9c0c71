// MPI communicators that free themselves, and the one place where results of MPI calls are looked at.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>

#include "retile/engines/processes.h"

namespace retile::mpi {

// Every MPI call goes through this. Throws RuntimeError with the call's name and MPI's words where the code is an
// error; whoever knows the rank and the step adds them.
void check(int code, const char* call);

// Whether MPI_Finalize has been called.
bool is_mpi_over();

// Throws RuntimeError where MPI is not started, and where the communicator is null, or one between two groups.
void require_communicator(MPI_Comm comm);

// Knows of ranks that have failed, for which others would wait forever.
class FailureWatch {
 public:
  virtual ~FailureWatch() = default;
  // Throws RuntimeError where a failure is known.
  virtual void require_no_earlier_failure() const = 0;
  // Throws RuntimeError where a failure is known, or is told now.
  virtual void look_for_failure() = 0;
};

// A communicator of our own: errors are returned, and no message of anybody else's is seen. Its making and its end are
// collective. After MPI_Finalize there is nothing left to free, so it may outlive MPI.
class Communicator final : public Processes {
 public:
  static Communicator duplicate(MPI_Comm comm);
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() override;

  // Ranks of one color together, in order of their keys.
  Communicator split(int color, int key) const;
  // Ranks that can share memory together.
  Communicator split_by_host() const;

  // Calls of this communicator, and of those that are split off it later, do not wait for ranks that have failed: they
  // throw what the watch throws. The communicator is then of no more use.
  void watch_failures(FailureWatch& watch) const { watch_ = &watch; }

  // Never frees it. MPI gives the number of a freed communicator to a new one, and messages that nobody has received
  // would be taken for messages of that one.
  void keep() const { is_kept_ = true; }

  MPI_Comm get() const { return comm_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void barrier() const;
  std::int64_t least(std::int64_t value) const override;
  void add_up(std::span<std::uint64_t> numbers) const override;
  void broadcast(std::span<std::byte> bytes, int from) const override;
  using Processes::most;
  void most(std::span<std::int64_t> values) const override;
  void gather(std::int64_t value, std::span<std::int64_t> all) const;
  // Numbers of all ranks, as many of each. This rank's own are in their place before.
  void gather(std::span<std::int64_t> all) const;

 private:
  explicit Communicator(MPI_Comm comm);

  // A collective call: `start(bytes, request)` starts it on a copy of these bytes.
  template <typename Start>
  void call(const char* name, std::span<std::byte> bytes, Start start) const;
  void wait(MPI_Request request, const char* name) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  mutable bool is_kept_ = false;
  mutable FailureWatch* watch_ = nullptr;
};

}  // namespace retile::mpi
