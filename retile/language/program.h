// Programs that passed the checker, as lowering transforms them and the runtime runs them. Every value has a type, and
// every statement is valid for its operands.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/plan/plan.h"
#include "retile/types/element_type.h"
#include "retile/types/layout.h"
#include "retile/types/placement.h"

namespace retile::language {

// --- Types.

// The type of a distributed array: f32[8{x}64, 3] sum {y}. The value of a sum (or maximum, or minimum) combines what
// the devices that differ only along its axes hold; such axes cut no dimension. Replicas of anything else agree bit by
// bit.
struct ArrayType {
  ElementType element = ElementType::f32;  // f32, f64 or i32
  Placement placement;                     // what each device holds (of a sum, its part); may be a table between steps
  std::vector<AxisPart> partial = {};      // axes that are summed over, in the mesh's order; perhaps of size 1
  Reduction reduction = Reduction::sum;
  // What devices hold, where neither a type nor a table describes it; not for sums.
  std::optional<Layout> layout = std::nullopt;

  // Whether element types, sums and the boxes on every device are equal.
  bool operator==(const ArrayType& other) const;
};

// The type of an array that is cut along axes of a mesh.
ArrayType array_type_of(ElementType element, MeshLayout cuts);
// The layout of the whole array, parts of a sum included; nothing for a table.
std::optional<Layout> layout_of(const ArrayType& type);

// The type of an array on one device: f32[8, 1024]. Rank 0 is a scalar. Where devices' tiles differ in size, the shape
// is that of the largest.
struct LocalType {
  ElementType element = ElementType::f32;
  Shape shape;
  // By dimension: the index of the LocalFunction's cut that gives its size on each device; -1 where the size is the
  // same on all. Empty where all are -1.
  std::vector<int> cuts = {};

  int cut(std::size_t dimension) const { return cuts.empty() ? -1 : cuts[dimension]; }
  bool operator==(const LocalType& other) const;
};

// How a dimension is cut into tiles of different sizes.
struct UnevenCut {
  std::vector<Factor> factors;
  UnevenRule rule = UnevenRule::ceiling;

  // The size of the device's tile.
  std::int64_t size_on(const Mesh& mesh, Device device) const;
  bool operator==(const UnevenCut&) const = default;
};

// The uneven cut of each dimension; nothing where all of its tiles have one size.
std::vector<std::optional<UnevenCut>> uneven_cuts(const ArrayType& type);
// The shape of the largest tile.
Shape tile_shape(const ArrayType& type);

// Bytes of the largest tile, or of a local array. The checker refuses types whose bytes do not fit in 63 bits.
std::int64_t bytes_of(const ArrayType& type);
std::int64_t bytes_of(const LocalType& type);

// --- Computation of a device on its tiles: instructions in order, each with one result.

enum class LocalOp {
  parameter,   // index: the number of the tile
  literal,     // the number, broadcast to the type's shape
  iota,        // numbers[0]: the dimension along which elements count from 0
  coordinate,  // index: the mesh axis; an i32 scalar
  add,
  subtract,
  multiply,
  divide,
  max,
  negate,
  exp,
  tanh,
  sqrt,
  relu,
  convert,     // to the type's element type; floats to i32 toward zero
  matmul,      // of the last two dimensions; those before them are equal and count batches
  transpose,   // numbers: result dimension i is operand dimension numbers[i]
  reshape,     // to the type's shape, row-major
  broadcast,   // to the type's shape: dimensions align at the end, those of size 1 repeat
  slice,       // numbers: lo of each dimension, then hi (exclusive) of each
  concat,      // numbers[0]: the dimension; any number of operands
  reduce_sum,  // numbers: the dimensions that are removed, ascending
  reduce_max,
};

struct LocalInstruction {
  LocalOp op = LocalOp::parameter;
  std::vector<int> operands;  // indices of earlier instructions; operands of arithmetic have equal types
  std::vector<std::int64_t> numbers;
  int index = 0;
  double number = 0;  // exact for every i32
  LocalType type;     // of the result
  SourceRange range;
};

// A device's computation. The first instructions are the parameters, in order.
struct LocalFunction {
  std::vector<LocalInstruction> instructions;
  std::vector<int> results;
  std::vector<UnevenCut> cuts = {};  // referred to by types
};

// The function with the sizes that its arrays have on this device.
LocalFunction on_device(LocalFunction function, const Mesh& mesh, Device device);

// --- Statements. Values are indices into the function's list.

struct SpmdOp {
  std::vector<int> operands;
  LocalFunction body;
};

// A redistribution from the operand's type to the result's, neither of which is a table. Axes that only the operand
// sums over are added up. The kinds differ in what they allow.
struct Redistribute {
  enum class Kind { redistribute, distribute, undistribute, allreduce } kind = Kind::redistribute;
  int operand = 0;
};

// One step of a plan, without its lists, from the operand's placement to the result's.
struct StepStatement {
  int operand = 0;
  Step step;
};

struct Call {
  int function = 0;  // an earlier one: functions do not call themselves, directly or indirectly
  std::vector<int> operands;
};

struct Statement {
  std::variant<SpmdOp, Redistribute, StepStatement, Call> operation;
  std::vector<int> results;
  SourceRange range;
};

struct Value {
  std::string name;
  ArrayType type;
  SourceRange range;  // of its declaration
};

struct Function {
  std::string name;
  std::vector<Value> values;  // parameters first
  int parameter_count = 0;
  std::vector<Statement> statements;
  std::vector<int> results;
  SourceRange range;         // of its name
  SourceRange return_range;  // of its return statement
};

struct Program {
  std::shared_ptr<const SourceText> source;  // that ranges refer to
  Mesh mesh;
  std::vector<Function> functions;  // callees before callers
  int main = 0;                     // the function called "main", or the only one
};

const Function& main_of(const Program& program);

std::vector<int> operands_of(const Statement& statement);

// Whether the statement is a Redistribute or a StepStatement; then its one operand, and its result.
bool moves_data(const Statement& statement);
const Value& operand_of(const Function& function, const Statement& statement);
const Value& result_of(const Function& function, const Statement& statement);

}  // namespace retile::language
