#include "retile/tensors/lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/diagnostic.h"
#include "retile/base/names.h"
#include "retile/plan/lists.h"
#include "retile/tensors/builder.h"
#include "retile/tensors/cells.h"

namespace retile::tensors {
namespace {

constexpr Names<ProgramForm, 3> names{{"collectives", "fast", "lean"}};

// --- Movements whose tiles are equal on all devices.

Corners corners_of(const Placement& placement) {
  Corners corners;
  for (Device device = 0; device < placement.device_count(); ++device) corners.push_back(placement.box(device).lo);
  return corners;
}

Corners differences(Corners a, const Corners& b) {
  for (std::size_t device = 0; device < a.size(); ++device) {
    for (std::size_t i = 0; i < a[device].size(); ++i) a[device][i] -= b[device][i];
  }
  return a;
}

// The placement with whole tiles where the array ends inside tiles of a grid.
Placement padded(const Placement& placement) {
  if (placement.is_listed() || placement.is_even() || placement.rank() == 0) return placement;
  std::vector<std::int64_t> corners;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Shape corner = placement.offset(device);
    corners.insert(corners.end(), corner.begin(), corner.end());
  }
  return {placement.grid_extent(), placement.tile_shape(), std::move(corners)};
}

Movement padded(Movement movement) {
  movement.source = padded(movement.source);
  for (Step& step : movement.steps) step.after = padded(step.after);
  return movement;
}

[[noreturn]] void refuse(const LoweringOptions& options, std::string_view what) {
  throw InputError(fmt::format("{} cannot say {}", options.language, what), "--as mpi moves boxes of any size");
}

void require_alike(const Placement& placement, const LoweringOptions& options) {
  if (!placement.has_single_boxes()) refuse(options, "tiles of several boxes");
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Box box = placement.box(device);
    for (std::size_t i = 0; i < box.lo.size(); ++i) {
      if (box.hi[i] - box.lo[i] == placement.local_shape()[i] && box.hi[i] > box.lo[i]) continue;
      refuse(options, "tiles that are not alike on all devices");
    }
  }
}

// --- Groups and pieces.

// The numbers of equal pieces that a tile is cut into, and joined from, in each dimension.
struct Recut {
  Shape cuts;
  Shape joins;
  Shape piece;
};

Recut recut_of(const Shape& before, const Shape& after) {
  Recut recut;
  for (std::size_t i = 0; i < before.size(); ++i) {
    recut.cuts.push_back(std::max<std::int64_t>(1, before[i] / after[i]));
    recut.joins.push_back(std::max<std::int64_t>(1, after[i] / before[i]));
    recut.piece.push_back(before[i] / recut.cuts[i]);
  }
  return recut;
}

// The dimensions with a count above 1.
std::vector<int> counted_dimensions(const Shape& counts) {
  std::vector<int> dimensions;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 1) dimensions.push_back(static_cast<int>(i));
  }
  return dimensions;
}

// The members of each group form a grid in row-major order. Returns its lines: sets of `count` members that are
// `stride` apart.
Groups lines_of(const Groups& groups, std::int64_t stride, std::int64_t count) {
  Groups lines;
  for (const std::vector<Device>& group : groups) {
    for (std::int64_t first = 0; first < static_cast<std::int64_t>(group.size()); ++first) {
      if (first / stride % count != 0) continue;
      std::vector<Device>& line = lines.emplace_back();
      for (std::int64_t k = 0; k < count; ++k) line.push_back(group[static_cast<std::size_t>(first + k * stride)]);
    }
  }
  return lines;
}

// The corner of the piece that each member of a group wants of each device's tile. Indexed [member][device].
std::vector<Corners> wanted_pieces(const Recut& recut, Corners moved, const Groups& groups) {
  for (Shape& corner : moved) {
    for (std::size_t i = 0; i < corner.size(); ++i) corner[i] *= recut.cuts[i] > 1 ? 1 : 0;
  }
  std::vector<Corners> wanted(groups.front().size(), moved);
  for (const std::vector<Device>& group : groups) {
    for (std::size_t member = 0; member < group.size(); ++member) {
      for (const Device device : group) {
        wanted[member][static_cast<std::size_t>(device)] = moved[static_cast<std::size_t>(group[member])];
      }
    }
  }
  return wanted;
}

// Whether each member wants the piece with its own number along this dimension.
bool are_in_order(const std::vector<Corners>& wanted, int dimension, std::int64_t length) {
  for (std::size_t member = 0; member < wanted.size(); ++member) {
    const std::int64_t start = static_cast<std::int64_t>(member) * length;
    for (const Shape& corner : wanted[member]) {
      if (corner[static_cast<std::size_t>(dimension)] != start) return false;
    }
  }
  return true;
}

class Lowering {
 public:
  Lowering(const Plan& plan, std::int64_t element_size, const LoweringOptions& options)
      : movement_(padded(with_lists(plan.movement))),
        options_(options),
        builder_({movement_.source.local_shape()}, element_size, options.long_run_bytes) {
    if (!plan.source.halo().empty() || !plan.target.halo().empty()) refuse(options, "ghost zones");
  }

  TensorProgram lower() {
    require_alike(movement_.source, options_);
    for (const Step& step : movement_.steps) require_alike(step.after, options_);
    TensorProgram program{movement_, {}};
    Value tile = 0;
    for (StageSteps stage : stage_steps(movement_.steps)) {
      if (stage.first < stage.last && !goes_by_rounds(stage.last)) {  // rounds read the tile from before the slices
        tile = cut(tile, movement_.before(stage.first), movement_.before(stage.last));
        program.stages.push_back({{stage.first, stage.last - 1}, builder_.take_statements()});
        stage.first = stage.last;
      }
      tile = lower_stage(tile, stage);
      program.stages.push_back({stage, builder_.take_statements()});
    }
    return program;
  }

 private:
  Value lower_stage(Value tile, const StageSteps& stage) {
    const Step& step = movement_.steps[stage.last];
    const Placement& before = movement_.before(stage.first);
    if (goes_by_rounds(stage.last)) {
      const std::optional<Rounds> rounds = find_rounds(before, step.after);
      if (!rounds) refuse(options_, "an exchange in which devices send more than they receive");
      return lower_rounds(builder_, options_, tile, *rounds, step.local_out(), is_gathered_outside(stage.last + 1));
    }
    if (const auto* permute = std::get_if<PermuteStep>(&step.operation)) return send(tile, *permute->pairs);
    if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) return combine(tile, step, reduce->reduction);
    if (std::holds_alternative<GatherStep>(step.operation)) return lower_gather(tile, stage.last);
    if (std::holds_alternative<AllToAllStep>(step.operation)) return lower_alltoall(tile, stage.last);
    return cut(tile, before, step.after);
  }

  // Whether a step becomes rounds: exchanges, and collectives that are better as rounds or cannot be expressed.
  bool goes_by_rounds(std::size_t step) const {
    const StepOperation& operation = movement_.steps[step].operation;
    if (std::holds_alternative<ExchangeStep>(operation)) return true;
    return retile::groups_of(operation) != nullptr && !is_one_collective(step);
  }

  // --- Single operations.

  Value cut(Value tile, const Placement& before, const Placement& after) {
    return builder_.slice(tile, differences(corners_of(after), corners_of(before)), after.local_shape());
  }

  Value combine(Value tile, const Step& step, Reduction reduction) {
    Shape rows{product(builder_.shape_of(tile)) / product(step.local_out())};
    rows.insert(rows.end(), step.local_out().begin(), step.local_out().end());
    return builder_.add(CombineOp{reduction}, {builder_.reshape(tile, rows)}, step.local_out());
  }

  Value send(Value tile, const std::vector<DevicePair>& pairs) {
    PermuteOp permute{std::vector<Device>(pairs.size())};
    for (const DevicePair& pair : pairs) permute.senders[static_cast<std::size_t>(pair.target)] = pair.source;
    return builder_.add(std::move(permute), {tile}, Shape(builder_.shape_of(tile)));
  }

  // --- Collectives over groups.

  bool is_one_collective(std::size_t step) const {
    const StepOperation& operation = movement_.steps[step].operation;
    const Groups& groups = *retile::groups_of(operation);
    const Recut recut = recut_of(step);
    if (std::holds_alternative<AllToAllStep>(operation)) return takes(groups) && is_one_alltoall(recut, step, groups);
    const bool is_outermost = recut.joins[0] > 1;
    const bool is_permuted = gathered_inside(recut) > 1 &&
                             (options_.parts > 0 || (!is_outermost && size_of(groups) <= options_.most_permuted));
    return !is_permuted && takes_gathers(recut, groups);
  }

  Recut recut_of(std::size_t step) const {
    return tensors::recut_of(movement_.before(step).local_shape(), movement_.steps[step].local_out());
  }

  static std::int64_t size_of(const Groups& groups) { return static_cast<std::int64_t>(groups.front().size()); }

  static std::int64_t gathered_inside(const Recut& recut) { return product(recut.joins) / recut.joins.front(); }

  bool takes(const Groups& groups) const { return !options_.takes_groups || options_.takes_groups(groups); }

  bool takes_gathers(const Recut& recut, const Groups& groups) const {
    const std::vector<GatherOp> gathers = gathers_of(recut, groups);
    return std::all_of(gathers.begin(), gathers.end(), [&](const GatherOp& gather) { return takes(gather.groups); });
  }

  // The gathers for each dimension, the outermost last: along it, tiles lie one after the other in memory.
  static std::vector<GatherOp> gathers_of(const Recut& recut, const Groups& groups) {
    std::vector<GatherOp> gathers;
    std::int64_t stride = 1;
    for (std::size_t i = recut.joins.size(); i-- > 0;) {
      if (recut.joins[i] == 1) continue;
      gathers.push_back({static_cast<int>(i), lines_of(groups, stride, recut.joins[i])});
      stride *= recut.joins[i];
    }
    return gathers;
  }

  Value lower_gather(Value tile, std::size_t step) {
    const Groups& groups = *retile::groups_of(movement_.steps[step].operation);
    const Recut recut = recut_of(step);
    const std::int64_t inner = gathered_inside(recut);
    std::vector<GatherOp> gathers = gathers_of(recut, groups);
    if (inner > 1 && !options_.has_inner_dimensions) {
      tile = gather_stacked(tile, recut, lines_of(groups, 1, inner));
      gathers.erase(gathers.begin(), gathers.end() - (recut.joins[0] > 1 ? 1 : 0));
    }
    for (GatherOp& gather : gathers) {
      const auto dimension = static_cast<std::size_t>(gather.dimension);
      Shape shape = builder_.shape_of(tile);
      shape[dimension] *= recut.joins[dimension];
      tile = builder_.add(std::move(gather), {tile}, std::move(shape));
    }
    return tile;
  }

  // Gathers all inner dimensions at once, along a new dimension in front.
  Value gather_stacked(Value tile, const Recut& recut, Groups groups) {
    Shape shape = builder_.shape_of(tile);
    shape.insert(shape.begin(), 1);
    tile = builder_.reshape(tile, shape);
    shape.front() = size_of(groups);
    Shape counts = recut.joins;
    counts.front() = 1;
    return builder_.join_stacked(builder_.add(GatherOp{0, std::move(groups)}, {tile}, std::move(shape)), counts);
  }

  // Whether an alltoall becomes one collective: pieces are equal and on one grid, and there are too many to be sent one
  // by one. Among four devices one collective is faster but holds more, which matters only where no step after it holds
  // as much.
  bool is_one_alltoall(const Recut& recut, std::size_t step, const Groups& groups) const {
    const std::int64_t size = size_of(groups);
    const Placement& after = movement_.steps[step].after;
    const Corners moved = differences(corners_of(after), corners_of(movement_.before(step)));
    Shape whole;
    for (std::size_t i = 0; i < recut.piece.size(); ++i) {
      whole.push_back(recut.piece[i] * recut.joins[i]);
      const auto is_on_grid = [&](const Shape& corner) { return corner[i] % recut.piece[i] == 0; };
      if (recut.cuts[i] > 1 && !std::all_of(moved.begin(), moved.end(), is_on_grid)) return false;
    }
    if (product(recut.cuts) != size || product(recut.joins) != size || whole != after.local_shape()) return false;
    const bool may_hold_more = counted_dimensions(recut.cuts).size() > 1 || step + 1 < movement_.steps.size();
    const std::int64_t most_permuted =
        may_hold_more ? std::min<std::int64_t>(options_.most_permuted, 2) : options_.most_permuted;
    return options_.parts == 0 && size > most_permuted;
  }

  Value lower_alltoall(Value tile, std::size_t step) {
    const Groups& groups = *retile::groups_of(movement_.steps[step].operation);
    const Recut recut = recut_of(step);
    const Placement& after = movement_.steps[step].after;
    const std::vector<Corners> wanted =
        wanted_pieces(recut, differences(corners_of(after), corners_of(movement_.before(step))), groups);
    const std::vector<int> split = counted_dimensions(recut.cuts);
    const std::vector<int> joined = counted_dimensions(recut.joins);
    if (options_.has_inner_dimensions && split.size() == 1 && joined.size() == 1 &&
        are_in_order(wanted, split[0], recut.piece[static_cast<std::size_t>(split[0])])) {
      return builder_.add(AllToAllOp{split[0], joined[0], groups}, {tile}, after.local_shape());
    }
    std::vector<Value> pieces;
    for (const Corners& corners : wanted) pieces.push_back(builder_.slice(tile, corners, recut.piece));
    const Value stacked = builder_.stack(pieces);
    const Value received = builder_.add(AllToAllOp{0, 0, groups}, {stacked}, Shape(builder_.shape_of(stacked)));
    return builder_.join_entries(received, recut.joins);
  }

  // Whether the step exists and makes the outermost dimension of tiles longer.
  bool is_gathered_outside(std::size_t step) const {
    if (step >= movement_.steps.size()) return false;
    const Shape& before = movement_.before(step).local_shape();
    const Shape& after = movement_.steps[step].local_out();
    return !before.empty() && !after.empty() && before.front() < after.front();
  }

  const Movement movement_;
  const LoweringOptions& options_;
  ProgramBuilder builder_;
};

}  // namespace

const char* name_of(ProgramForm form) { return names.of(form); }

std::optional<ProgramForm> find_program_form(std::string_view name) { return names.find(name); }

ProgramForm form_for(std::string_view platform, std::int64_t tile_bytes, std::int64_t run_bytes,
                     Surroundings surroundings) {
  constexpr std::int64_t least_fast_bytes = 256 << 10;
  constexpr std::int64_t least_run_bytes = 64;
  const bool is_measured = platform == "cpu" || platform == "gpu";
  const bool is_fast = is_measured && surroundings == Surroundings::none && tile_bytes >= least_fast_bytes &&
                       run_bytes >= least_run_bytes;
  return is_fast ? ProgramForm::fast : ProgramForm::collectives;
}

Executor executor_of_tensors() {
  Executor executor;
  executor.exchange_weight = 2;
  executor.most_rounds = 4;
  return executor;
}

LoweringOptions options_for(ProgramForm form) {
  LoweringOptions options;
  if (form == ProgramForm::collectives) return options;
  options.has_inner_dimensions = false;
  if (form == ProgramForm::lean) {
    options.parts = 8;
  } else {
    options.most_permuted = 4;
    options.most_branches = 64;
  }
  return options;
}

TensorProgram lower(const Plan& plan, std::int64_t element_size, const LoweringOptions& options) {
  return Lowering(plan, element_size, options).lower();
}

}  // namespace retile::tensors
