// A plan as what a compiler of tensors can say: every device does the same with tiles of the same shape, one operation
// after the other, and only numbers differ by device.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "retile/emission/emission.h"
#include "retile/plan/plan.h"

namespace retile::emission {

// The box of this shape whose corner is each device's.
struct SliceOp {
  std::vector<Shape> corners;
  Shape shape;
};

struct ReshapeOp {
  Shape shape;
};

struct TransposeOp {
  std::vector<int> order;  // the old dimension of each new one
};

// The members' tiles one after the other along the dimension.
struct GatherOp {
  int dimension = 0;
  Groups groups;
};

// Each tile is cut along one dimension into a piece for each member; the pieces received are joined along another.
struct AllToAllOp {
  int split = 0;
  int join = 0;
  Groups groups;
};

struct PermuteOp {
  std::vector<Device> senders;  // to each device
};

// A box of the tile, kept or sent.
struct Cell {
  std::vector<Shape> corners;     // by device, of what it keeps or sends
  std::optional<PermuteOp> sent;  // nothing: every device keeps its own
};

// Cells of this shape side by side along a new dimension in front.
struct CellsOp {
  Shape shape;
  std::vector<Cell> cells;
};

// Entries of the first dimension in each device's order.
struct PickOp {
  std::vector<Shape> order;  // by device
};

// Entries of the first dimension combined, one after the other; it is gone afterwards.
struct CombineOp {
  Reduction reduction = Reduction::sum;
};

using TensorOperation =
    std::variant<SliceOp, ReshapeOp, TransposeOp, GatherOp, AllToAllOp, PermuteOp, CellsOp, PickOp, CombineOp>;

// Of a gather or an alltoall; null where there are none.
const Groups* groups_of(const TensorOperation& operation);

struct TensorStatement {
  TensorOperation operation;
  Shape shape;  // of the result
};

struct TensorProgram {
  Mesh mesh;                              // axes are split where an end is cut along parts of them
  std::optional<DistributedType> source;  // over the mesh; nothing where no type says who holds what
  std::optional<DistributedType> target;
  Shape shape;                                      // of the array: larger where its last tiles are padded
  Shape tile;                                       // that each device starts from
  std::vector<std::vector<TensorStatement>> steps;  // of each step of the plan
  std::vector<int> combined;                        // dimensions of the source that are gone in the target
};

// Of a plan whose lists are there. Tiles of a grid are padded where the array ends before it does. Throws InputError
// where tiles are not alike on all devices otherwise.
TensorProgram lower(const Plan& plan, Target target);

// The corners of all devices along one dimension.
std::vector<std::int64_t> along(const std::vector<Shape>& corners, std::size_t dimension);

}  // namespace retile::emission
