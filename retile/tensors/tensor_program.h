// TensorProgram: a plan in the operations that compilers of tensors have. Every device does the same operations one
// after the other, with values of the same shapes; only numbers (corners, orders, branches) differ by device. Front
// ends interpret it and emitters print it; neither makes decisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile::tensors {

// The number of a value. A program's tile is value 0; a branch's arguments are the first values. Each statement makes
// the next value.
using Value = std::size_t;

// A corner for each device, or one for all.
using Corners = std::vector<Shape>;

// --- Operations. A statement has the shape of its result.

// Cuts a box off the first operand, at each device's corner. If there is a second operand, the box is cut after that is
// computed: otherwise a compiler may hold all boxes of a tile at once.
struct SliceOp {
  Corners corners;

  bool operator==(const SliceOp&) const = default;
};

struct ReshapeOp {
  bool operator==(const ReshapeOp&) const = default;
};

struct TransposeOp {
  std::vector<int> order;  // the old dimension that becomes each new one

  bool operator==(const TransposeOp&) const = default;
};

// Gathers the tiles of a group's members, one after the other along the dimension.
struct GatherOp {
  int dimension = 0;
  Groups groups;

  bool operator==(const GatherOp&) const = default;
};

// Cuts each tile along one dimension into a piece for each member, and joins the pieces received along another.
struct AllToAllOp {
  int split = 0;
  int join = 0;
  Groups groups;

  bool operator==(const AllToAllOp&) const = default;
};

struct PermuteOp {
  std::vector<Device> senders;  // by receiver

  bool operator==(const PermuteOp&) const = default;
};

// Stacks the operands along a new dimension in front.
struct StackOp {
  bool operator==(const StackOp&) const = default;
};

struct ConcatenateOp {
  int dimension = 0;

  bool operator==(const ConcatenateOp&) const = default;
};

// Puts the entries of the first dimension in each device's order.
struct PickOp {
  std::vector<Shape> order;  // by device

  bool operator==(const PickOp&) const = default;
};

// Selects the first or the second operand.
struct SelectOp {
  std::vector<std::int64_t> chosen;  // by device: 0 or 1

  bool operator==(const SelectOp&) const = default;
};

struct Statement;

// Passes the operands to one of several branches.
struct SwitchOp {
  std::vector<std::int64_t> chosen;  // by device: the number of its branch
  std::vector<std::vector<Statement>> branches;

  bool operator==(const SwitchOp& other) const;
};

// Makes zeros of the operand's element type.
struct ZerosOp {
  bool operator==(const ZerosOp&) const = default;
};

// Writes the second operand into the first, at each device's corner.
struct UpdateOp {
  Corners corners;

  bool operator==(const UpdateOp&) const = default;
};

// Combines the entries of the first dimension one after the other, and removes the dimension.
struct CombineOp {
  Reduction reduction = Reduction::sum;

  bool operator==(const CombineOp&) const = default;
};

using Operation = std::variant<SliceOp, ReshapeOp, TransposeOp, GatherOp, AllToAllOp, PermuteOp, StackOp, ConcatenateOp,
                               PickOp, SelectOp, SwitchOp, ZerosOp, UpdateOp, CombineOp>;

// The groups of a gather or an alltoall; null for other operations.
const Groups* groups_of(const Operation& operation);

struct Statement {
  Operation operation;
  std::vector<Value> operands;
  Shape shape;  // of the result

  bool operator==(const Statement&) const = default;
};

inline bool SwitchOp::operator==(const SwitchOp& other) const {
  return chosen == other.chosen && branches == other.branches;
}

// --- Programs.

// The statements for one or more steps of the plan. Slices may be part of the operations after them.
struct ProgramStage {
  StageSteps steps;
  std::vector<Statement> statements;
};

struct TensorProgram {
  Movement movement;  // the plan's, with lists; its array is larger than the plan's where the last tiles are padded
  std::vector<ProgramStage> stages;

  const Shape& array() const { return movement.source.global_shape(); }
  const Shape& tile() const { return movement.source.local_shape(); }  // the shape that each device starts from
  std::vector<Statement> statements() const;                           // of all stages; the last value is the result
};

// The costs of carrying out a program, in elements per device.
struct ProgramCosts {
  std::int64_t received = 0;  // from other devices, by the busiest one
  std::int64_t cut = 0;       // elements of boxes that are copied before they are sent
  std::int64_t largest = 0;   // elements of the largest value, source and target included
  std::int64_t rounds = 0;    // permutations in the stage with the most
  std::int64_t collectives = 0;
};

ProgramCosts costs_of(const TensorProgram& program);

// Whether a compiler sees a tensor program alone, or a larger program around it.
enum class Surroundings { none, program };

// Whether the compiler's own program, `compilers`, does as well as ours, so that it is left to the compiler. It must
// hold nothing larger than source and target, and:
// - inside a program, receive no more by no more collectives: copies around them merge with the operations there.
// - alone, only permute tiles, slice them and gather them along the outermost dimension, which takes no memory beside
//   the values, and copy and receive no more.
bool is_left_to_compiler(const TensorProgram& compilers, const TensorProgram& ours, Surroundings surroundings);

// The collectives in order, by JAX's names: "2 ppermute, all_gather"; "" where nothing is sent.
std::string collectives_text(const TensorProgram& program);

}  // namespace retile::tensors
