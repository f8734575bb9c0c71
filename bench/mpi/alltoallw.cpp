#include "bench/mpi/alltoallw.h"

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

// A box as it lies in a device's memory, whose start the type begins at.
struct PlacedBox {
  MPI_Datatype type;
  MPI_Aint displacement;  // bytes
};

PlacedBox place(const Part& part, const Box& box, MPI_Datatype element, std::int64_t element_size) {
  PlacedBox placed{element, part.offset * element_size};
  for (std::size_t i = box.lo.size(); i-- > 0;) {
    const MPI_Aint stride = part.strides[i] * element_size;
    placed.displacement += (box.lo[i] - part.box.lo[i]) * stride;
    MPI_Datatype longer = MPI_DATATYPE_NULL;
    check(MPI_Type_create_hvector(static_cast<int>(box.hi[i] - box.lo[i]), 1, stride, placed.type, &longer),
          "MPI_Type_create_hvector");
    if (placed.type != element) MPI_Type_free(&placed.type);
    placed.type = longer;
  }
  return placed;
}

MPI_Datatype element_of(std::int64_t element_size) {
  if (element_size == 4) return MPI_FLOAT;
  if (element_size == 8) return MPI_DOUBLE;
  if (element_size == 2) return MPI_SHORT;
  if (element_size == 16) return MPI_C_DOUBLE_COMPLEX;
  return MPI_BYTE;
}

std::vector<Piece> transfers_of(const Movement& movement) {
  if (movement.steps.empty() || op_of(movement.steps.front()) != StepOp::exchange) return {};
  Step step = movement.steps.front();
  list_devices(step, movement.source);
  return *std::get<ExchangeStep>(step.operation).pieces;
}

}  // namespace

Alltoallw::Alltoallw(const Problem& problem, MPI_Comm comm, OwnPart own_part)
    : comm_(comm), element_size_(bytes_of(problem.element_type())), element_(element_of(element_size_)) {
  int size = 0;
  check(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
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
  std::vector<std::vector<Box>> sent(static_cast<std::size_t>(size));
  std::vector<std::vector<Box>> received(sent.size());
  for (const Piece& transfer : transfers_of(movement)) {
    if (transfer.from == rank_) sent[static_cast<std::size_t>(transfer.to)].push_back(transfer.box);
    if (transfer.to == rank_) received[static_cast<std::size_t>(transfer.from)].push_back(transfer.box);
  }
  for (const Part& from : before.parts(rank_)) {
    for (const Part& to : after.parts(rank_)) {
      const std::optional<Box> kept = intersect(from.box, to.box);
      if (!kept) continue;
      if (own_part == OwnPart::copied) {
        own_.emplace_back(layout_of(from, element_size_), layout_of(to, element_size_), *kept, element_size_);
      } else {
        sent[static_cast<std::size_t>(rank_)].push_back(*kept);
        received[static_cast<std::size_t>(rank_)].push_back(*kept);
      }
    }
  }
  for (int peer = 0; peer < size; ++peer) {
    add(sent_, peer, before, sent[static_cast<std::size_t>(peer)]);
    add(received_, peer, after, received[static_cast<std::size_t>(peer)]);
  }
}

Alltoallw::~Alltoallw() {
  for (Side* side : {&sent_, &received_}) {
    for (MPI_Datatype& type : side->types) {
      if (type != element_) MPI_Type_free(&type);
    }
  }
}

void Alltoallw::add(Side& side, int peer, const Placement& tiles, const std::vector<Box>& boxes) {
  if (boxes.empty()) return;
  const auto index = static_cast<std::size_t>(peer);
  side.counts[index] = 1;
  if (tiles.has_single_boxes() && boxes.size() == 1) {
    const Box tile = tiles.box(rank_);
    const BoxPacking packing(tile, boxes.front(), element_size_, order_of(tile));
    if (packing.is_contiguous()) {
      side.counts[index] = static_cast<int>(volume(boxes.front()));
      side.displacements[index] = static_cast<int>(packing.offset());
      return;
    }
    side.types[index] = subarray(tile, boxes.front(), element_);
  } else {
    std::vector<int> ones(boxes.size(), 1);
    std::vector<MPI_Aint> displacements;
    std::vector<MPI_Datatype> types;
    for (const Box& box : boxes) {
      const PlacedBox placed = place(tiles.part_around(rank_, box).value(), box, element_, element_size_);
      displacements.push_back(placed.displacement);
      types.push_back(placed.type);
    }
    check(MPI_Type_create_struct(static_cast<int>(boxes.size()), ones.data(), displacements.data(), types.data(),
                                 &side.types[index]),
          "MPI_Type_create_struct");
    for (MPI_Datatype& type : types) MPI_Type_free(&type);
  }
  check(MPI_Type_commit(&side.types[index]), "MPI_Type_commit");
}

void Alltoallw::run(const std::byte* source, std::byte* target) const {
  for (const BoxCopy& copy : own_) copy.run(source, target);
  check(MPI_Alltoallw(source, sent_.counts.data(), sent_.displacements.data(), sent_.types.data(), target,
                      received_.counts.data(), received_.displacements.data(), received_.types.data(), comm_),
        "MPI_Alltoallw");
}

}  // namespace retile::bench
