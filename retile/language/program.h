// Programs that passed the checker: what lowering transforms and the runtime runs. Every value has a type, every
// statement does something that its operands allow.
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

// f32[8{x}64, 3] sum {y}: a distributed array. Where it is a sum (or a maximum, a minimum), the value is the sum of
// what the devices that differ only along those axes hold; such axes cut no dimension. Replicas of anything else agree
// bit by bit.
struct ArrayType {
  ElementType element = ElementType::f32;  // f32, f64 or i32
  Placement placement;                     // what each device holds, of a sum its part; between steps perhaps a table
  std::vector<AxisPart> partial = {};      // that are summed over, in the mesh's order; perhaps of size 1
  Reduction reduction = Reduction::sum;
  std::optional<Layout> layout =
      std::nullopt;  // that says what devices hold, where neither a type nor a table does; no sum

  // True where element types, sums and the boxes on every device are equal.
  bool operator==(const ArrayType& other) const;
};

// Cut along axes of a mesh as a text says.
ArrayType array_type_of(ElementType element, MeshLayout cuts);
// The layout of the whole, parts of a sum included; nothing for a table.
std::optional<Layout> layout_of(const ArrayType& type);

// f32[8, 1024]: an array on one device. Rank 0 is a scalar. Where devices' tiles differ in size, it is the largest.
struct LocalType {
  ElementType element = ElementType::f32;
  Shape shape;
  // By dimension: which of the LocalFunction's cuts says how long it is on each device, -1 where it has its size on
  // all; empty where all have.
  std::vector<int> cuts = {};

  int cut(std::size_t dimension) const { return cuts.empty() ? -1 : cuts[dimension]; }
  bool operator==(const LocalType& other) const;
};

// How a dimension is cut into tiles of different sizes.
struct UnevenCut {
  std::vector<Factor> factors;
  UnevenRule rule = UnevenRule::ceiling;

  // The size of the tile on the device at this place of the mesh.
  std::int64_t size_on(const Mesh& mesh, Device device) const;
  bool operator==(const UnevenCut&) const = default;
};

// How the type's tiles are uneven, by dimension; nothing where they are all of one size.
std::vector<std::optional<UnevenCut>> uneven_cuts(const ArrayType& type);
// The shape of the largest tile.
Shape tile_shape(const ArrayType& type);

// Bytes of the largest tile, or of a local array. The checker refuses types whose bytes do not fit in 63 bits.
std::int64_t bytes_of(const ArrayType& type);
std::int64_t bytes_of(const LocalType& type);

// --- What a device computes on its tiles: instructions in order, each with one result.

enum class LocalOp {
  parameter,   // index: which tile
  literal,     // number, broadcast to the type's shape
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
  matmul,      // the last two dimensions; those before them are equal and count batches
  transpose,   // numbers: result dimension i is operand dimension numbers[i]
  reshape,     // to the type's shape, row-major
  broadcast,   // to the type's shape: dimensions align at the end, those of size 1 repeat
  slice,       // numbers: lo of each dimension, then hi (exclusive) of each
  concat,      // numbers[0]: the dimension; any number of operands
  reduce_sum,  // numbers: the dimensions that go, ascending
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

// The first instructions are the parameters, in order.
struct LocalFunction {
  std::vector<LocalInstruction> instructions;
  std::vector<int> results;
  std::vector<UnevenCut> cuts = {};  // that types name
};

// The function with the sizes that arrays have on the device.
LocalFunction on_device(LocalFunction function, const Mesh& mesh, Device device);

// --- Statements. Values are indices into the function's list.

struct SpmdOp {
  std::vector<int> operands;
  LocalFunction body;
};

// From the operand's type to the result's, of which none is a table. What the operand's sums over and the result's does
// not is added up. The kinds differ in what they may be asked for.
struct Redistribute {
  enum class Kind { redistribute, distribute, undistribute, allreduce } kind = Kind::redistribute;
  int operand = 0;
};

// One step of a plan, its lists absent: from the operand's placement to the result's.
struct StepStatement {
  int operand = 0;
  Step step;
};

struct Call {
  int function = 0;  // an earlier one: functions do not call themselves, directly or not
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
  SourceRange range;  // where it is declared
};

struct Function {
  std::string name;
  std::vector<Value> values;  // the parameters first
  int parameter_count = 0;
  std::vector<Statement> statements;
  std::vector<int> results;
  SourceRange range;         // its name
  SourceRange return_range;  // where it returns
};

struct Program {
  std::shared_ptr<const SourceText> source;  // what ranges point into
  Mesh mesh;
  std::vector<Function> functions;  // in an order in which callees come before callers
  int main = 0;                     // the function called "main", or the only one
};

const Function& main_of(const Program& program);

std::vector<int> operands_of(const Statement& statement);

// Whether the statement is a Redistribute or a StepStatement; its one operand, and its result.
bool moves_data(const Statement& statement);
const Value& operand_of(const Function& function, const Statement& statement);
const Value& result_of(const Function& function, const Statement& statement);

}  // namespace retile::language
