#include "bench/mpi/alltoallw.h"

#include "retile/base/error.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/plan/lists.h"
#include "retile/planner/planner.h"

namespace retile::bench {
namespace {

using mpi::check;

std::vector<int> ints(const Shape& values) { return {values.begin(), values.end()}; }

MPI_Datatype subarray(const Box& tile, const Box& box, MPI_Datatype element) {
  Shape sizes;
  Shape extents;
  Shape starts;
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    sizes.push_back(tile.hi[i] - tile.lo[i]);
    extents.push_back(box.hi[i] - box.lo[i]);
    starts.push_back(box.lo[i] - tile.lo[i]);
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check(MPI_Type_create_subarray(static_cast<int>(box.lo.size()), ints(sizes).data(), ints(extents).data(),
                                 ints(starts).data(), MPI_ORDER_C, element, &type),
        "MPI_Type_create_subarray");
  return type;
}

MPI_Datatype element_of(std::int64_t element_size) {
  if (element_size == 4) return MPI_FLOAT;
  if (element_size == 8) return MPI_DOUBLE;
  if (element_size == 2) return MPI_SHORT;
  return MPI_BYTE;
}

std::vector<Transfer> transfers_of(const Movement& movement) {
  if (movement.steps.empty() || op_of(movement.steps.front()) != StepOp::exchange) return {};
  Step step = movement.steps.front();
  list_devices(step, movement.source);
  return *std::get<ExchangeStep>(step.operation).transfers;
}

}  // namespace

Alltoallw::Alltoallw(const Problem& problem, MPI_Comm comm, OwnPart own_part)
    : comm_(comm), element_size_(bytes_of(problem.element_type())), element_(element_of(element_size_)) {
  int rank = 0;
  int size = 0;
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  for (Side* side : {&sent_, &received_}) {
    side->counts.assign(static_cast<std::size_t>(size), 0);
    side->displacements.assign(static_cast<std::size_t>(size), 0);
    side->types.assign(static_cast<std::size_t>(size), element_);
  }
  PlanOptions options;
  options.planner = PlannerKind::direct;
  const Movement movement = make_plan(problem, options).movement;  // perhaps with dimensions seen in factors
  const Placement& before = movement.source;
  const Placement& after = movement.target();
  if (!before.has_single_boxes() || !after.has_single_boxes()) {
    throw RuntimeError("one datatype for each rank is made for one box on each");
  }
  for (const Transfer& transfer : transfers_of(movement)) {
    if (transfer.from == rank) add(sent_, static_cast<int>(transfer.to), before.box(rank), transfer.box);
    if (transfer.to == rank) add(received_, static_cast<int>(transfer.from), after.box(rank), transfer.box);
  }
  const std::optional<Box> kept = intersect(before.box(rank), after.box(rank));
  if (kept && own_part == OwnPart::copied) own_.emplace(before.box(rank), after.box(rank), *kept, element_size_);
  if (kept && own_part == OwnPart::sent) {
    add(sent_, rank, before.box(rank), *kept);
    add(received_, rank, after.box(rank), *kept);
  }
}

Alltoallw::~Alltoallw() {
  for (Side* side : {&sent_, &received_}) {
    for (MPI_Datatype& type : side->types) {
      if (type != element_) MPI_Type_free(&type);
    }
  }
}

void Alltoallw::add(Side& side, int peer, const Box& tile, const Box& box) {
  const auto index = static_cast<std::size_t>(peer);
  const BoxPacking packing(tile, box, element_size_, order_of(tile));
  if (packing.is_contiguous()) {
    side.counts[index] = static_cast<int>(volume(box));
    side.displacements[index] = static_cast<int>(packing.offset());
  } else {
    side.counts[index] = 1;
    side.types[index] = subarray(tile, box, element_);
    check(MPI_Type_commit(&side.types[index]), "MPI_Type_commit");
  }
}

void Alltoallw::run(const std::byte* source, std::byte* target) const {
  if (own_) own_->run(source, target);
  check(MPI_Alltoallw(source, sent_.counts.data(), sent_.displacements.data(), sent_.types.data(), target,
                      received_.counts.data(), received_.displacements.data(), received_.types.data(), comm_),
        "MPI_Alltoallw");
}

}  // namespace retile::bench
