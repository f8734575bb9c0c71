#include "bench/mpi/bare_collectives.h"

#include <algorithm>
#include <cstring>

#include "retile/base/arithmetic.h"
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
  std::int64_t most = plan.source.local_size();
  for (const Step& step : with_lists(plan).steps) {
    add(step, plan.mesh(), comm, element_size);
    most = std::max(most, step.after.local_size());
  }
  sent_ = touched(most * element_size);
  received_ = touched(most * element_size);
}

BareCollectives::~BareCollectives() {
  for (Collective& collective : collectives_) {
    if (collective.group != MPI_COMM_NULL) MPI_Comm_free(&collective.group);
  }
}

void BareCollectives::add(const Step& step, const Mesh& mesh, MPI_Comm comm, std::int64_t element_size) {
  const int rank = rank_in(comm);
  const std::int64_t bytes = product(step.local_in) * element_size;
  Collective collective{step.op, MPI_COMM_NULL, static_cast<int>(bytes), rank, rank};
  switch (step.op) {
    case StepOp::dynslice:
      return;
    case StepOp::alltoall:
    case StepOp::allgather: {
      const std::vector<std::vector<Device>> groups = step.groups.list(mesh);
      const auto mine = std::find_if(groups.begin(), groups.end(), [&](const std::vector<Device>& group) {
        return std::find(group.begin(), group.end(), rank) != group.end();
      });
      const auto color = static_cast<int>(mine - groups.begin());
      check(MPI_Comm_split(comm, color, rank, &collective.group), "MPI_Comm_split");
      if (step.op == StepOp::alltoall) collective.count /= static_cast<int>(mine->size());
      break;
    }
    case StepOp::allpermute:
      for (const DevicePair& pair : step.pairs) {
        if (pair.source == rank) collective.to = static_cast<int>(pair.target);
        if (pair.target == rank) collective.from = static_cast<int>(pair.source);
      }
      break;
    case StepOp::exchange:
      throw InternalError("an exchange is no collective");
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
