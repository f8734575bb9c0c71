#include "bench/mpi/bare_collectives.h"

#include <algorithm>
#include <cstring>

#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/plan/lists.h"

namespace retile::bench {
namespace {

using mpi::check;

Buffer touched(std::int64_t bytes) {
  Buffer buffer(static_cast<std::size_t>(bytes));
  std::memset(buffer.data(), 1, buffer.size());
  return buffer;
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

}  // namespace

BareCollectives::BareCollectives(const Plan& plan, MPI_Comm comm, std::int64_t element_size) : comm_(comm) {
  const Movement movement = with_lists(plan.movement);
  for (std::size_t i = 0; i < movement.steps.size(); ++i) {
    add(movement.steps[i].operation, movement.before(i).local_size() * element_size);
  }
  const std::int64_t most = height(movement) * element_size;
  sent_ = touched(most);
  received_ = touched(most);
}

BareCollectives::~BareCollectives() {
  for (Collective& collective : collectives_) {
    if (collective.group != MPI_COMM_NULL) MPI_Comm_free(&collective.group);
  }
}

void BareCollectives::add(const StepOperation& operation, std::int64_t bytes) {
  const int rank = rank_in(comm_);
  Collective collective{op_of(operation), MPI_COMM_NULL, static_cast<int>(bytes), rank, rank};
  if (collective.op == StepOp::dynslice) return;
  ensure(collective.op != StepOp::exchange, "an exchange is no collective");
  if (const Groups* groups = groups_of(operation)) {
    const auto mine = std::find_if(groups->begin(), groups->end(), [&](const std::vector<Device>& group) {
      return std::find(group.begin(), group.end(), rank) != group.end();
    });
    const auto color = static_cast<int>(mine - groups->begin());
    check(MPI_Comm_split(comm_, color, rank, &collective.group), "MPI_Comm_split");
    if (collective.op == StepOp::alltoall) collective.count /= static_cast<int>(mine->size());
  } else {
    for (const DevicePair& pair : *std::get<PermuteStep>(operation).pairs) {
      if (pair.source == rank) collective.to = static_cast<int>(pair.target);
      if (pair.target == rank) collective.from = static_cast<int>(pair.source);
    }
  }
  collectives_.push_back(collective);
}

void BareCollectives::run() {
  for (const auto& [op, group, count, to, from] : collectives_) {
    const void* source = sent_.data();
    void* target = received_.data();
    if (op == StepOp::alltoall) {
      check(MPI_Alltoall(source, count, MPI_BYTE, target, count, MPI_BYTE, group), "MPI_Alltoall");
    } else if (op == StepOp::allgather) {
      check(MPI_Allgather(source, count, MPI_BYTE, target, count, MPI_BYTE, group), "MPI_Allgather");
    } else {
      check(MPI_Sendrecv(source, count, MPI_BYTE, to, 0, target, count, MPI_BYTE, from, 0, comm_, MPI_STATUS_IGNORE),
            "MPI_Sendrecv");
    }
  }
}

}  // namespace retile::bench
