// TensorProgram: a plan in the operations that compilers of tensors have. Every device does the same, one operation
// after the other, with values of the same shapes; only numbers (corners, orders, branches) differ by device.
// Front ends interpret it and emitters print it: neither decides anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile::tensors {

// The number of a value. A program's tile is 0, a branch's arguments are the first ones; each statement makes the next.
using Value = std::size_t;

// A corner for each device, or one that all have.
using Corners = std::vector<Shape>;

// --- Operations. The shape of the result is the statement's.

// The box of the first operand whose corner is each device's. It is cut after the second operand is there, if one is
// given: without that, a compiler may hold all boxes of a tile at once.
struct SliceOp {
  Corners corners;
};

struct ReshapeOp {};

struct TransposeOp {
  std::vector<int> order;  // the old dimension of each new one
};

// The tiles of a group's members one after the other along the dimension.
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

// The operands side by side along a new dimension in front.
struct StackOp {};

struct ConcatenateOp {
  int dimension = 0;
};

// Entries of the first dimension in each device's order.
struct PickOp {
  std::vector<Shape> order;  // by device
};

// The first operand, or the second one.
struct SelectOp {
  std::vector<std::int64_t> chosen;  // by device: 0 or 1
};

struct Statement;

// The operands through one of several branches.
struct SwitchOp {
  std::vector<std::int64_t> chosen;  // by device: the number of its branch
  std::vector<std::vector<Statement>> branches;
};

// Zeros of the operand's element type.
struct ZerosOp {};

// The first operand, with the second one written to each device's corner.
struct UpdateOp {
  Corners corners;
};

// Entries of the first dimension combined, one after the other; it is gone afterwards.
struct CombineOp {
  Reduction reduction = Reduction::sum;
};

using Operation = std::variant<SliceOp, ReshapeOp, TransposeOp, GatherOp, AllToAllOp, PermuteOp, StackOp, ConcatenateOp,
                               PickOp, SelectOp, SwitchOp, ZerosOp, UpdateOp, CombineOp>;

// The groups of a gather or an alltoall; null where there are none.
const Groups* groups_of(const Operation& operation);

struct Statement {
  Operation operation;
  std::vector<Value> operands;
  Shape shape;  // of the result
};

// --- Programs.

// The statements for one or more steps of the plan. Slices may be part of the operations after them.
struct ProgramStage {
  StageSteps steps;
  std::vector<Statement> statements;
};

struct TensorProgram {
  Movement movement;  // the plan's, with lists; its array is larger where the last tiles are padded
  std::vector<ProgramStage> stages;

  const Shape& array() const { return movement.source.global_shape(); }
  const Shape& tile() const { return movement.source.local_shape(); }  // that each device starts from
  std::vector<Statement> statements() const;                           // of all stages; the last value is the result
};

// The cost of carrying out a program, in elements per device.
struct ProgramCosts {
  std::int64_t received = 0;  // by the busiest device from others
  std::int64_t cut = 0;       // of boxes that are copied before they are sent
  std::int64_t largest = 0;   // of the largest value, source and target among them
  std::int64_t rounds = 0;    // permutations of the stage that has the most
  std::int64_t collectives = 0;
};

ProgramCosts costs_of(const TensorProgram& program);

// Whether a compiler sees a tensor program alone, or a larger program around it.
enum class Surroundings { none, program };

// Whether a compiler that carries out the first program by itself does as well as the second one would. It holds
// nothing larger than source and target.
// - Inside a program it receives no more by no more collectives: copies around them go into the operations there.
// - Alone, it permutes tiles, slices them and gathers them along the outermost dimension, which takes no memory
//   beside the values; and it copies and receives no more.
bool is_left_to_compiler(const TensorProgram& compilers, const TensorProgram& ours, Surroundings surroundings);

// The collectives in order, as JAX calls them: "2 ppermute, all_gather"; "" where nothing is sent.
std::string collectives_text(const TensorProgram& program);

}  // namespace retile::tensors
