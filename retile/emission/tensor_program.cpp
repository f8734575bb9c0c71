#include "retile/emission/tensor_program.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/emission/device_form.h"
#include "retile/emission/targets.h"
#include "retile/plan/rounds.h"

namespace retile::emission {
namespace {

constexpr const char* other_target = "--as mpi moves boxes of any size";

std::vector<Shape> corners_of(const Placement& placement) {
  std::vector<Shape> corners;
  for (Device device = 0; device < placement.device_count(); ++device) corners.push_back(placement.box(device).lo);
  return corners;
}

// Tiles of a grid, whole where the array ends inside them.
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

std::vector<Shape> differences(const std::vector<Shape>& a, const std::vector<Shape>& b) {
  std::vector<Shape> result = a;
  for (std::size_t device = 0; device < a.size(); ++device) {
    for (std::size_t i = 0; i < a[device].size(); ++i) result[device][i] -= b[device][i];
  }
  return result;
}

// How a tile is cut into equal pieces, and joined from equal pieces, in each dimension.
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

// The only dimension with a count above 1; nothing where there are several.
std::optional<int> only_dimension(const Shape& counts) {
  std::optional<int> found;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 1) continue;
    if (found) return std::nullopt;
    found = static_cast<int>(i);
  }
  return found;
}

bool is_counting(const std::vector<int>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int>(i)) return false;
  }
  return true;
}

class Lowering {
 public:
  Lowering(const Plan& plan, Target target) : movement_(padded(plan.movement)), target_(target) {}

  TensorProgram lower() {
    const Movement& movement = movement_;
    require_alike(movement.source);
    for (const Step& step : movement.steps) require_alike(step.after);
    TensorProgram program{movement.mesh, {}, {}, movement.source.global_shape(), movement.source.local_shape(), {}, {}};
    shape_ = program.tile;
    for (std::size_t i = 0; i < movement.steps.size(); ++i) {
      statements_.clear();
      lower_step(movement.before(i), movement.steps[i]);
      if (target_ == Target::mlir && !has_named_groups()) {  // groups are axes there, but anybody may send to anybody
        statements_.clear();
        shape_ = movement.before(i).local_shape();
        lower_rounds(movement.before(i), movement.steps[i].after);
      }
      program.steps.push_back(std::move(statements_));
      if (const auto* reduce = std::get_if<ReduceStep>(&movement.steps[i].operation)) {
        program.combined = reduce->dimensions;
      }
    }
    name_ends(program);
    return program;
  }

 private:
  void require_alike(const Placement& placement) const {
    if (!placement.has_single_boxes()) refuse(target_, "tiles of several boxes", other_target);
    for (Device device = 0; device < placement.device_count(); ++device) {
      const Box box = placement.box(device);
      for (std::size_t i = 0; i < box.lo.size(); ++i) {
        if (box.hi[i] - box.lo[i] == placement.local_shape()[i] && box.hi[i] > box.lo[i]) continue;
        refuse(target_, "tiles that are not alike on all devices", other_target);
      }
    }
  }

  // Whether the step's groups lie along axes of the mesh, if need be with an axis for each prime.
  bool has_named_groups() const {
    const Mesh primes = refine(movement_.mesh, movement_.mesh.prime_parts());
    return std::all_of(statements_.begin(), statements_.end(), [&](const TensorStatement& statement) {
      const Groups* groups = groups_of(statement.operation);
      return groups == nullptr || find_group_axes(primes, *groups);
    });
  }

  // The types of both ends, on a mesh with whole axes for them.
  void name_ends(TensorProgram& program) const {
    const auto source = find_type(movement_.mesh, movement_.source);
    const auto target = find_type(movement_.mesh, movement_.target());
    std::vector<AxisPart> parts;
    for (const auto* type : {&source, &target}) {
      if (!*type) continue;
      const DistributedType merged = merge_neighbours(**type);
      for (const Dimension& dimension : merged.dimensions()) {
        parts.insert(parts.end(), dimension.axes.begin(), dimension.axes.end());
      }
    }
    program.mesh = movement_.mesh.axis_count() == 0 ? Mesh({{"device", 1}}) : refine(movement_.mesh, parts);
    const auto on_mesh = [&](const Placement& placement) -> std::optional<DistributedType> {
      const auto type = find_type(program.mesh, placement);
      return type ? std::optional(merge_neighbours(*type)) : std::nullopt;
    };
    if (source) program.source = on_mesh(movement_.source);
    if (target) program.target = on_mesh(movement_.target());
  }

  // --- Statements.

  void add(TensorOperation operation, Shape shape) {
    shape_ = shape;
    statements_.push_back({std::move(operation), std::move(shape)});
  }

  void reshape(const Shape& shape) {
    if (shape != shape_) add(ReshapeOp{shape}, shape);
  }

  void transpose(const std::vector<int>& order) {
    if (is_counting(order)) return;
    Shape shape;
    for (const int dimension : order) shape.push_back(shape_[static_cast<std::size_t>(dimension)]);
    add(TransposeOp{order}, std::move(shape));
  }

  void slice(std::vector<Shape> corners, const Shape& shape) {
    if (shape != shape_) add(SliceOp{std::move(corners), shape}, shape);
  }

  // The tile becomes its pieces, one after the other in row-major order along a new dimension in front. Where there are
  // terms, it is cut in one dimension only, and they say which piece comes where.
  void part(const Recut& recut, const std::vector<DigitTerm>& terms) {
    std::vector<DigitTerm> digits = terms;  // in the order that they have in the tile
    std::sort(digits.begin(), digits.end(), [](const DigitTerm& a, const DigitTerm& b) { return a.factor > b.factor; });
    Shape cut;
    std::vector<int> outer;
    std::vector<int> inner;
    for (std::size_t i = 0; i < recut.cuts.size(); ++i) {
      if (recut.cuts[i] > 1 && terms.empty()) {
        outer.push_back(static_cast<int>(cut.size()));
        cut.push_back(recut.cuts[i]);
      }
      if (recut.cuts[i] > 1 && !terms.empty()) {
        for (const DigitTerm& term : terms) {
          const auto place = std::find(digits.begin(), digits.end(), term) - digits.begin();
          outer.push_back(static_cast<int>(cut.size()) + static_cast<int>(place));
        }
        for (const DigitTerm& digit : digits) cut.push_back(digit.size);
      }
      inner.push_back(static_cast<int>(cut.size()));
      cut.push_back(recut.piece[i]);
    }
    reshape(cut);
    outer.insert(outer.end(), inner.begin(), inner.end());
    transpose(outer);
    Shape pieces{product(recut.cuts)};
    pieces.insert(pieces.end(), recut.piece.begin(), recut.piece.end());
    reshape(pieces);
  }

  // The other way round.
  void join(const Shape& counts, const Shape& piece) {
    Shape apart;
    for (const std::int64_t count : counts) {
      if (count > 1) apart.push_back(count);
    }
    const std::size_t outer = apart.size();
    std::vector<int> order;
    Shape whole;
    int next = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 1) order.push_back(next++);
      order.push_back(static_cast<int>(outer + i));
      whole.push_back(counts[i] * piece[i]);
    }
    apart.insert(apart.end(), piece.begin(), piece.end());
    reshape(apart);
    transpose(order);
    reshape(whole);
  }

  // --- Steps.

  void lower_step(const Placement& before, const Step& step) {
    const Shape& out = step.local_out();
    if (std::holds_alternative<SliceStep>(step.operation)) {
      slice(differences(corners_of(step.after), corners_of(before)), out);
    } else if (const auto* gather = std::get_if<GatherStep>(&step.operation)) {
      lower_gather(before, out, *gather->groups);
    } else if (const auto* alltoall = std::get_if<AllToAllStep>(&step.operation)) {
      if (!lower_alltoall(before, step.after, *alltoall->groups)) lower_rounds(before, step.after);
    } else if (const auto* permute = std::get_if<PermuteStep>(&step.operation)) {
      PermuteOp operation{std::vector<Device>(permute->pairs->size())};
      for (const DevicePair& pair : *permute->pairs) {
        operation.senders[static_cast<std::size_t>(pair.target)] = pair.source;
      }
      add(std::move(operation), out);
    } else if (const auto* reduce = std::get_if<ReduceStep>(&step.operation)) {
      Shape rows{before.local_size() / step.after.local_size()};
      rows.insert(rows.end(), out.begin(), out.end());
      reshape(rows);
      add(CombineOp{reduce->reduction}, out);
    } else {
      lower_rounds(before, step.after);
    }
  }

  // One dimension after the other, the outermost last: its tiles lie one after the other in memory. Members are in
  // row-major order of their corners.
  void lower_gather(const Placement& before, const Shape& out, const Groups& groups) {
    const Recut recut = recut_of(before.local_shape(), out);
    std::int64_t inner = 1;
    for (std::size_t i = out.size(); i-- > 0;) {
      const std::int64_t count = recut.joins[i];
      if (count == 1) continue;
      Groups lines;
      for (const std::vector<Device>& group : groups) {
        for (std::int64_t first = 0; first < static_cast<std::int64_t>(group.size()); ++first) {
          if (first / inner % count != 0) continue;
          std::vector<Device>& line = lines.emplace_back();
          for (std::int64_t k = 0; k < count; ++k) line.push_back(group[static_cast<std::size_t>(first + k * inner)]);
        }
      }
      inner *= count;
      Shape shape = shape_;
      shape[i] *= count;
      add(GatherOp{static_cast<int>(i), std::move(lines)}, std::move(shape));
    }
  }

  // False where pieces are not equal, or do not lie on one grid.
  bool lower_alltoall(const Placement& before, const Placement& after, const Groups& groups) {
    const Recut recut = recut_of(before.local_shape(), after.local_shape());
    const auto size = static_cast<std::int64_t>(groups.front().size());
    Shape whole;
    for (std::size_t i = 0; i < recut.piece.size(); ++i) whole.push_back(recut.piece[i] * recut.joins[i]);
    if (product(recut.cuts) != size || product(recut.joins) != size || whole != after.local_shape()) return false;
    const auto wanted = wanted_pieces(recut, differences(corners_of(after), corners_of(before)));
    if (!wanted) return false;
    PickOp pick{std::vector<Shape>(wanted->size())};
    bool is_in_order = true;
    for (const std::vector<Device>& group : groups) {
      Shape order;
      for (const Device member : group) order.push_back((*wanted)[static_cast<std::size_t>(member)]);
      for (std::int64_t i = 0; i < size; ++i) is_in_order &= order[static_cast<std::size_t>(i)] == i;
      for (const Device member : group) pick.order[static_cast<std::size_t>(member)] = order;
    }
    const auto split_dimension = only_dimension(recut.cuts);
    const auto join_dimension = only_dimension(recut.joins);
    if (is_in_order && split_dimension && join_dimension) {
      add(AllToAllOp{*split_dimension, *join_dimension, groups}, after.local_shape());
      return true;
    }
    const std::vector<DigitTerm> terms = is_in_order ? std::vector<DigitTerm>{} : terms_of(pick, recut);
    part(recut, terms);
    const Shape pieces = shape_;
    if (!is_in_order && terms.empty()) add(std::move(pick), pieces);
    add(AllToAllOp{0, 0, groups}, pieces);
    join(recut.joins, recut.piece);
    return true;
  }

  // The order of the pieces by digits of their places, major to minor, where it is the same for all devices and a
  // transposition does it; else none.
  static std::vector<DigitTerm> terms_of(const PickOp& pick, const Recut& recut) {
    const Shape& order = pick.order.front();
    if (!only_dimension(recut.cuts)) return {};
    if (std::any_of(pick.order.begin(), pick.order.end(), [&](const Shape& one) { return one != order; })) return {};
    const auto form = find_form(Mesh({{"piece", static_cast<std::int64_t>(order.size())}}), order);
    return form && form->constant == 0 ? form->terms : std::vector<DigitTerm>{};
  }

  // By device, the row-major number of the piece of its group's tiles that it gets.
  static std::optional<std::vector<std::int64_t>> wanted_pieces(const Recut& recut, const std::vector<Shape>& moved) {
    std::vector<std::int64_t> wanted;
    for (const Shape& corner : moved) {
      std::int64_t number = 0;
      for (std::size_t i = 0; i < corner.size(); ++i) {
        if (recut.cuts[i] == 1) continue;
        if (corner[i] % recut.piece[i] != 0) return std::nullopt;
        number = number * recut.cuts[i] + corner[i] / recut.piece[i];
      }
      wanted.push_back(number);
    }
    return wanted;
  }

  void lower_rounds(const Placement& before, const Placement& after) {
    const std::optional<Rounds> rounds = find_rounds(before, after);
    if (!rounds) refuse(target_, "an exchange in which devices send more than they receive", other_target);
    CellsOp operation{rounds->cell, {}};
    std::vector<const Round*> all;
    for (const Round& round : rounds->own) {
      operation.cells.push_back({round.taken_from, {}});
      all.push_back(&round);
    }
    for (const Round& round : rounds->exchanged) {
      operation.cells.push_back({round.taken_from, PermuteOp{round.senders}});
      all.push_back(&round);
    }
    if (all.size() == 1) {
      slice(all.front()->taken_from, rounds->cell);
      if (operation.cells.front().sent) add(*operation.cells.front().sent, shape_);
      return;
    }
    const Shape& whole = after.local_shape();
    Shape grid;
    for (std::size_t i = 0; i < whole.size(); ++i) grid.push_back(whole[i] / rounds->cell[i]);
    PickOp pick{order_of_cells(all, rounds->cell, grid)};
    const bool is_one_order =
        std::all_of(pick.order.begin(), pick.order.end(), [&](const Shape& one) { return one == pick.order.front(); });
    if (is_one_order) {
      std::vector<Cell> ordered;
      for (const std::int64_t cell : pick.order.front()) {
        ordered.push_back(operation.cells[static_cast<std::size_t>(cell)]);
      }
      operation.cells = std::move(ordered);
    }
    Shape stacked{static_cast<std::int64_t>(all.size())};
    stacked.insert(stacked.end(), rounds->cell.begin(), rounds->cell.end());
    add(std::move(operation), stacked);
    if (!is_one_order) add(std::move(pick), stacked);
    join(grid, rounds->cell);
  }

  // By device: which round brought the cell of each place, in row-major order of the places.
  static std::vector<Shape> order_of_cells(const std::vector<const Round*>& rounds, const Shape& cell,
                                           const Shape& grid) {
    std::vector<Shape> order(rounds.front()->written_to.size(), Shape(rounds.size()));
    for (std::size_t device = 0; device < order.size(); ++device) {
      for (std::size_t round = 0; round < rounds.size(); ++round) {
        std::int64_t place = 0;
        for (std::size_t i = 0; i < grid.size(); ++i) {
          place = place * grid[i] + rounds[round]->written_to[device][i] / cell[i];
        }
        order[device][static_cast<std::size_t>(place)] = static_cast<std::int64_t>(round);
      }
    }
    return order;
  }

  const Movement movement_;
  const Target target_;
  Shape shape_;  // of the last result
  std::vector<TensorStatement> statements_;
};

}  // namespace

const Groups* groups_of(const TensorOperation& operation) {
  if (const auto* gather = std::get_if<GatherOp>(&operation)) return &gather->groups;
  if (const auto* alltoall = std::get_if<AllToAllOp>(&operation)) return &alltoall->groups;
  return nullptr;
}

TensorProgram lower(const Plan& plan, Target target) { return Lowering(plan, target).lower(); }

std::vector<std::int64_t> along(const std::vector<Shape>& corners, std::size_t dimension) {
  std::vector<std::int64_t> numbers;
  for (const Shape& corner : corners) numbers.push_back(corner[dimension]);
  return numbers;
}

}  // namespace retile::emission
