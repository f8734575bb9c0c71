#include "retile/tensors/cells.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "retile/base/arithmetic.h"

namespace retile::tensors {
namespace {

Corners shifted(Corners corners, const Shape& by) {
  for (Shape& corner : corners) {
    for (std::size_t i = 0; i < by.size(); ++i) corner[i] += by[i];
  }
  return corners;
}

// How a device joins its tile from cells.
struct Arrangement {
  Shape order;                 // the cell at each place, row-major: kept cells are counted first, then received ones
  std::vector<Shape> corners;  // of the kept cells

  bool operator<(const Arrangement& other) const {
    return std::tie(order, corners) < std::tie(other.order, other.corners);
  }
};

std::vector<Arrangement> arrangements_of(const Rounds& rounds, const Shape& grid) {
  std::vector<Arrangement> arrangements(rounds.exchanged.empty() ? rounds.own.front().senders.size()
                                                                 : rounds.exchanged.front().senders.size());
  for (std::size_t device = 0; device < arrangements.size(); ++device) {
    Arrangement& one = arrangements[device];
    one.order.resize(rounds.own.size() + rounds.exchanged.size());
    std::int64_t number = 0;
    for (const auto* list : {&rounds.own, &rounds.exchanged}) {
      for (const Round& round : *list) {
        std::int64_t place = 0;
        for (std::size_t i = 0; i < grid.size(); ++i) {
          place = place * grid[i] + round.written_to[device][i] / rounds.cell[i];
        }
        one.order[static_cast<std::size_t>(place)] = number++;
        if (list == &rounds.own) one.corners.push_back(round.taken_from[device]);
      }
    }
  }
  return arrangements;
}

// A part of a cell, which is sent at once. It has about as many elements as wanted at most; inner dimensions stay
// whole.
struct Part {
  Shape corner;
  Shape shape;
};

std::vector<Part> parts_of(const Shape& box, std::int64_t elements) {
  if (product(box) <= elements) return {{Shape(box.size()), box}};
  const auto outer = static_cast<std::size_t>(
      std::find_if(box.begin(), box.end(), [](std::int64_t length) { return length > 1; }) - box.begin());
  const std::int64_t rest = product(box) / box[outer];
  const std::int64_t length = std::max<std::int64_t>(1, elements / rest);
  std::vector<Part> parts;
  for (std::int64_t start = 0; start < box[outer]; start += length) {
    Part& part = parts.emplace_back(Part{Shape(box.size()), box});
    part.corner[outer] = start;
    part.shape[outer] = std::min(length, box[outer] - start);
  }
  return parts;
}

class CellLowering {
 public:
  CellLowering(ProgramBuilder& builder, const LoweringOptions& options) : builder_(builder), options_(options) {}

  Value lower(Value tile, const Rounds& rounds, const Shape& whole, bool is_gathered_next) {
    Shape grid;
    for (std::size_t i = 0; i < whole.size(); ++i) grid.push_back(whole[i] / rounds.cell[i]);
    if (product(grid) == 1) {
      const bool is_kept = rounds.exchanged.empty();
      const Round& only = is_kept ? rounds.own.front() : rounds.exchanged.front();
      const Value cell = builder_.slice(tile, only.taken_from, rounds.cell);
      return is_kept ? cell : send(cell, only.senders);
    }
    if (options_.parts > 0) return send_in_parts(tile, rounds, whole);
    const std::vector<Value> received = receive_cells(tile, rounds);
    const std::vector<Arrangement> arrangements = arrangements_of(rounds, grid);
    std::map<Arrangement, std::int64_t> ways;  // numbers of the distinct arrangements
    for (const Arrangement& one : arrangements) ways.try_emplace(one);
    std::int64_t number = 0;
    for (auto& [way, place] : ways) place = number++;
    if (ways.size() > options_.most_branches) return pick_cells(tile, rounds, received, arrangements, grid);
    if (ways.size() == 2 && received.size() == 2 && rounds.own.empty() && is_gathered_next) {
      return select_cells(received, arrangements, grid);
    }
    return branch_cells(tile, rounds, received, arrangements, ways, grid);
  }

 private:
  Value send(Value box, const std::vector<Device>& senders) {
    return builder_.add(PermuteOp{senders}, {box}, Shape(builder_.shape_of(box)));
  }

  std::vector<Value> receive_cells(Value tile, const Rounds& rounds) {
    const bool is_in_turn =
        rounds.exchanged.size() > options_.most_cut_at_once && rounds.cell != builder_.shape_of(tile);
    std::vector<Value> received;
    for (const Round& round : rounds.exchanged) {
      const auto after = is_in_turn && !received.empty() ? std::optional(received.back()) : std::nullopt;
      received.push_back(send(builder_.slice(tile, round.taken_from, rounds.cell, after), round.senders));
    }
    return received;
  }

  // Stacks all cells, and picks them in each device's own order.
  Value pick_cells(Value tile, const Rounds& rounds, const std::vector<Value>& received,
                   const std::vector<Arrangement>& arrangements, const Shape& grid) {
    std::vector<Value> cells;
    for (const Round& round : rounds.own) cells.push_back(builder_.slice(tile, round.taken_from, rounds.cell));
    cells.insert(cells.end(), received.begin(), received.end());
    PickOp pick;
    for (const Arrangement& one : arrangements) pick.order.push_back(one.order);
    const auto is_first = [&](const Shape& order) { return order == pick.order.front(); };
    if (std::all_of(pick.order.begin(), pick.order.end(), is_first)) {
      return builder_.join(in_order(cells, pick.order.front()), grid);
    }
    const Value stacked = builder_.stack(cells);
    return builder_.join_stacked(builder_.add(std::move(pick), {stacked}, Shape(builder_.shape_of(stacked))), grid);
  }

  static std::vector<Value> in_order(const std::vector<Value>& cells, const Shape& order) {
    std::vector<Value> ordered;
    for (const std::int64_t cell : order) ordered.push_back(cells[static_cast<std::size_t>(cell)]);
    return ordered;
  }

  // Joins two received cells in either order. Before a collective, and without a branch, XLA puts these cells into
  // memory that becomes the result's.
  Value select_cells(const std::vector<Value>& received, const std::vector<Arrangement>& arrangements,
                     const Shape& grid) {
    SelectOp select;
    for (const Arrangement& one : arrangements) select.chosen.push_back(one.order.front());
    const Shape& cell = builder_.shape_of(received[0]);
    const Value first = builder_.add(select, {received[0], received[1]}, Shape(cell));
    const Value second = builder_.add(select, {received[1], received[0]}, Shape(builder_.shape_of(first)));
    return builder_.join_stacked(builder_.stack({first, second}), grid);
  }

  // Joins cells by a branch for each arrangement: which cells are kept, and where cells go.
  Value branch_cells(Value tile, const Rounds& rounds, const std::vector<Value>& received,
                     const std::vector<Arrangement>& arrangements, const std::map<Arrangement, std::int64_t>& ways,
                     const Shape& grid) {
    std::vector<Value> arguments = received;
    if (!rounds.own.empty()) arguments.insert(arguments.begin(), tile);
    if (ways.size() == 1) return arrange(builder_, arguments, rounds.cell, ways.begin()->first, grid);
    SwitchOp choice;
    for (const Arrangement& one : arrangements) choice.chosen.push_back(ways.at(one));
    Shape shape;
    for (const auto& [way, number] : ways) {
      ProgramBuilder branch = builder_.branch(arguments);
      std::vector<Value> own_arguments(arguments.size());
      for (std::size_t i = 0; i < own_arguments.size(); ++i) own_arguments[i] = i;
      shape = branch.shape_of(arrange(branch, own_arguments, rounds.cell, way, grid));
      choice.branches.push_back(branch.take_statements());
    }
    return builder_.add(std::move(choice), arguments, std::move(shape));
  }

  // Joins the cells of one arrangement. The arguments are the tile, where some of its cells are kept, and the received
  // cells.
  static Value arrange(ProgramBuilder& builder, const std::vector<Value>& arguments, const Shape& cell,
                       const Arrangement& way, const Shape& grid) {
    std::vector<Value> cells;
    for (const Shape& corner : way.corners) cells.push_back(builder.slice(arguments.front(), {corner}, cell));
    cells.insert(cells.end(), arguments.begin() + (way.corners.empty() ? 0 : 1), arguments.end());
    cells = in_order(cells, way.order);
    // XLA can cut kept cells while it joins them along the last dimension.
    const bool is_cut = !way.corners.empty() && cell != builder.shape_of(arguments.front()) && grid.back() > 1;
    return is_cut ? builder.join_stacked(builder.stack(cells), grid) : builder.join(cells, grid);
  }

  // Sends parts of cells one after the other. Each is written to its place before the next is cut.
  Value send_in_parts(Value tile, const Rounds& rounds, const Shape& whole) {
    Value result = builder_.add(ZerosOp{}, {tile}, whole);
    const std::int64_t most = std::max<std::int64_t>(product(whole) / options_.parts, 1);
    for (const Round& round : rounds.exchanged) {
      for (const Part& part : parts_of(rounds.cell, most)) {
        const Value box = builder_.slice(tile, shifted(round.taken_from, part.corner), part.shape, result);
        result = builder_.update(result, send(box, round.senders), shifted(round.written_to, part.corner));
      }
    }
    for (const Round& round : rounds.own) {  // last: a round that waited for these would copy the result
      result = builder_.update(result, builder_.slice(tile, round.taken_from, rounds.cell), round.written_to);
    }
    return result;
  }

  ProgramBuilder& builder_;
  const LoweringOptions& options_;
};

}  // namespace

Value lower_rounds(ProgramBuilder& builder, const LoweringOptions& options, Value tile, const Rounds& rounds,
                   const Shape& whole, bool is_gathered_next) {
  return CellLowering(builder, options).lower(tile, rounds, whole, is_gathered_next);
}

}  // namespace retile::tensors
