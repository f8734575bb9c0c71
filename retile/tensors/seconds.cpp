#include "retile/tensors/seconds.h"

#include <algorithm>
#include <cmath>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/error.h"

namespace retile::tensors {
namespace {

// --- Work.

// The elements of a dimension and those inside it.
std::int64_t elements_from(const Shape& shape, std::size_t dimension) {
  return product(Shape(shape.begin() + static_cast<std::ptrdiff_t>(dimension), shape.end()));
}

bool is_outermost(const Shape& shape, int dimension) {
  return product(Shape(shape.begin(), shape.begin() + dimension)) == 1;
}

// The contiguous elements of a box in a tile.
std::int64_t run_of(const Shape& tile, const Shape& box) {
  std::int64_t run = 1;
  for (std::size_t i = tile.size(); i-- > 0;) {
    run *= box[i];
    if (box[i] != tile[i]) break;
  }
  return run;
}

// The elements that a transposition keeps together: those of the innermost dimensions that stay where they are.
std::int64_t run_of(const TransposeOp& transpose, const Shape& shape) {
  std::size_t first = transpose.order.size();
  while (first > 0 && transpose.order[first - 1] == static_cast<int>(first) - 1) --first;
  return elements_from(shape, first);
}

class WorkOfStatements {
 public:
  WorkOfStatements(std::vector<Shape> arguments, std::int64_t element_size)
      : shapes_(std::move(arguments)), is_slice_(shapes_.size()), element_size_(element_size) {}

  std::vector<Work> add(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      std::visit([&](const auto& operation) { add(operation, statement); }, statement.operation);
      const bool is_reshaped_slice =
          std::holds_alternative<ReshapeOp>(statement.operation) && is_slice_[statement.operands.front()];
      is_slice_.push_back(is_reshaped_slice || std::holds_alternative<SliceOp>(statement.operation));
      shapes_.push_back(statement.shape);
    }
    return std::exchange(work_, {});
  }

 private:
  void copy(std::int64_t run, std::int64_t elements) {
    if (elements > 0) work_.push_back({Work::Kind::copy, run * element_size_, elements * element_size_});
  }

  void collective(Work::Kind kind, std::size_t group, const Statement& statement) {
    work_.push_back({kind, static_cast<std::int64_t>(group), product(statement.shape) * element_size_});
  }

  const Shape& operand_of(const Statement& statement, std::size_t number = 0) const {
    return shapes_[statement.operands[number]];
  }

  void add(const SliceOp& /*operation*/, const Statement& statement) {
    copy(run_of(operand_of(statement), statement.shape), product(statement.shape));
  }

  void add(const ReshapeOp& /*operation*/, const Statement& /*statement*/) {}

  void add(const TransposeOp& operation, const Statement& statement) {
    copy(run_of(operation, operand_of(statement)), product(statement.shape));
  }

  void add(const GatherOp& operation, const Statement& statement) {
    const Shape& tile = operand_of(statement);
    collective(Work::Kind::gather, operation.groups.front().size(), statement);
    if (is_outermost(tile, operation.dimension)) return;
    const auto inside = static_cast<std::size_t>(operation.dimension) + 1;
    copy(elements_from(tile, inside), product(tile) + product(statement.shape));  // before the collective and after it
  }

  void add(const AllToAllOp& operation, const Statement& statement) {
    const std::size_t group = operation.groups.front().size();
    Shape piece = operand_of(statement);
    piece[static_cast<std::size_t>(operation.split)] /= static_cast<std::int64_t>(group);
    collective(Work::Kind::all_to_all, group, statement);
    if (!is_outermost(operand_of(statement), operation.split)) {
      copy(elements_from(piece, static_cast<std::size_t>(operation.split)), product(statement.shape));
    }
    if (!is_outermost(piece, operation.join)) {
      copy(elements_from(piece, static_cast<std::size_t>(operation.join)), product(statement.shape));
    }
  }

  void add(const PermuteOp& operation, const Statement& statement) {
    collective(Work::Kind::permute, operation.senders.size(), statement);
  }

  void join(const Statement& statement, std::size_t dimension) {
    for (const Value operand : statement.operands) {
      if (!is_slice_[operand]) copy(elements_from(shapes_[operand], dimension), product(shapes_[operand]));
    }
  }

  void add(const StackOp& /*operation*/, const Statement& statement) { join(statement, 0); }

  void add(const ConcatenateOp& operation, const Statement& statement) {
    join(statement, static_cast<std::size_t>(operation.dimension));
  }

  void add(const PickOp& /*operation*/, const Statement& statement) {
    copy(elements_from(statement.shape, 1), product(statement.shape));
  }

  void add(const SelectOp& /*operation*/, const Statement& statement) { copy_whole(statement.shape); }

  void add(const SwitchOp& operation, const Statement& statement) {
    std::vector<Shape> arguments;
    for (const Value operand : statement.operands) arguments.push_back(shapes_[operand]);
    std::vector<Work> most;
    for (const std::vector<Statement>& branch : operation.branches) {
      std::vector<Work> work = WorkOfStatements(arguments, element_size_).add(branch);
      if (bytes_of(work) > bytes_of(most)) most = std::move(work);
    }
    work_.insert(work_.end(), most.begin(), most.end());
  }

  void add(const ZerosOp& /*operation*/, const Statement& statement) { copy_whole(statement.shape); }

  void add(const UpdateOp& /*operation*/, const Statement& statement) {
    const Shape& box = operand_of(statement, 1);
    copy(run_of(statement.shape, box), product(box));
  }

  void add(const CombineOp& /*operation*/, const Statement& statement) { copy_whole(operand_of(statement)); }

  void copy_whole(const Shape& shape) { copy(product(shape), product(shape)); }

  static std::int64_t bytes_of(const std::vector<Work>& work) {
    std::int64_t bytes = 0;
    for (const Work& one : work) bytes += one.bytes;
    return bytes;
  }

  std::vector<Shape> shapes_;   // of all values
  std::vector<bool> is_slice_;  // by value, through reshapes
  std::vector<Work> work_;
  std::int64_t element_size_;
};

// --- Seconds.

std::int64_t to_picoseconds(double seconds) {
  const double picoseconds = std::round(seconds * 1e12);
  if (picoseconds < static_cast<double>(std::int64_t{1} << 56U)) return static_cast<std::int64_t>(picoseconds);
  throw InputError("the time of the program is longer than 20 hours", "rates are in bytes a second");
}

const CollectiveTimes* times_of(Work::Kind kind, const ProgramTimes& programs) {
  switch (kind) {
    case Work::Kind::permute:
      return &programs.permute;
    case Work::Kind::gather:
      return &programs.gather;
    case Work::Kind::all_to_all:
      return &programs.all_to_all;
    case Work::Kind::copy:
      return nullptr;
  }
  throw InternalError("unknown work");
}

// The seconds of a stage, by what they are spent on.
struct StageSeconds {
  double start = 0;
  double receiving = 0;
  double copying = 0;
  double latencies = 0;
  std::int64_t collectives = 0;

  void add(const Work& work, const Machine& machine) {
    const auto bytes = static_cast<double>(work.bytes);
    if (const CollectiveTimes* times = times_of(work.kind, *machine.programs)) {
      ++collectives;
      latencies += times->latency_in(work.size);
      receiving += bytes / times->rate_of(std::max<std::int64_t>(1, work.bytes));
    } else {
      copying += bytes / machine.copy_rate(work.size);
    }
  }

  StepTime time() const {
    using Kind = Wait::Kind;
    StepTime time{to_picoseconds(start + receiving + copying + latencies), {}};
    for (const Wait& wait :
         {Wait{Kind::step, 0, to_picoseconds(start)}, Wait{Kind::receiving, 0, to_picoseconds(receiving)},
          Wait{Kind::copying, 0, to_picoseconds(copying)},
          Wait{Kind::messages, collectives, to_picoseconds(latencies)}}) {
      if (wait.picoseconds > time.wait.picoseconds) time.wait = wait;
    }
    return time;
  }
};

StepTime least_time(std::int64_t floor, std::int64_t element_size, const ProgramTimes& programs) {
  StageSeconds least{programs.start};
  if (floor == 0) return least.time();
  double latency = HUGE_VAL;
  double rate = 0;
  for (const CollectiveTimes* times : {&programs.permute, &programs.gather, &programs.all_to_all}) {
    for (const CollectiveTimes::Latency& entry : times->latency) latency = std::min(latency, entry.seconds);
    for (const CollectiveTimes::Rate& entry : times->rate) rate = std::max(rate, entry.rate);
  }
  least.collectives = 1;
  least.latencies = latency;
  least.receiving = static_cast<double>(floor) * static_cast<double>(element_size) / rate;
  return least.time();
}

}  // namespace

std::vector<std::vector<Work>> work_of(const TensorProgram& program, std::int64_t element_size) {
  WorkOfStatements work({program.tile()}, element_size);
  std::vector<std::vector<Work>> by_stage;
  for (const ProgramStage& stage : program.stages) by_stage.push_back(work.add(stage.statements));
  return by_stage;
}

PlanTime program_time(const TensorProgram& program, std::int64_t floor, std::int64_t element_size,
                      const Machine& machine) {
  PlanTime time{machine.name, std::vector<StepTime>(program.movement.steps.size()), 0, {}};
  const std::vector<std::vector<Work>> work = work_of(program, element_size);
  for (std::size_t stage = 0; stage < work.size(); ++stage) {
    StageSeconds seconds{stage == 0 ? machine.programs->start : 0};
    for (const Work& one : work[stage]) seconds.add(one, machine);
    StepTime& step = time.steps[program.stages[stage].steps.last];
    step = seconds.time();
    time.total += step.picoseconds;
  }
  time.lower_bound = work.empty() ? StepTime{} : least_time(floor, element_size, *machine.programs);
  time.lower_bound.picoseconds = std::min(time.lower_bound.picoseconds, time.total);  // times are rounded one by one
  return time;
}

}  // namespace retile::tensors
