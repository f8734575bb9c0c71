#include "retile/grids/digit_table.h"

#include <algorithm>
#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

std::int64_t prime_of(const Mesh& mesh) { return mesh.prime_parts().empty() ? 2 : mesh.prime_parts().front().size; }

// How many cuts by the prime make so many tiles.
std::size_t depth_of(const Mesh& mesh, std::int64_t tiles) {
  std::size_t depth = 0;
  for (; tiles > 1; tiles /= prime_of(mesh)) ++depth;
  return depth;
}

std::vector<bool> used_digits(const DigitTable& table) {
  std::vector<bool> used(table.mesh.prime_parts().size());
  for (const std::vector<int>& levels : table.levels) {
    for (const int digit : levels) at(used, digit) = true;
  }
  return used;
}

}  // namespace

DigitLevels digit_levels(const DistributedType& type) {
  const std::vector<AxisPart>& digits = type.mesh().prime_parts();
  DigitLevels table(static_cast<std::size_t>(type.rank()));
  for (int i = 0; i < type.rank(); ++i) {
    std::vector<int>& levels = at(table, i);
    if (!type.dimension(i).axes.empty()) levels.reserve(digits.size());
    for (const AxisPart& part : type.dimension(i).axes) {
      for (std::size_t d = digits.size(); d-- > 0;) {
        const bool inside =
            digits[d].axis == part.axis && digits[d].major >= part.major && digits[d].major < part.major * part.size;
        if (inside) levels.push_back(static_cast<int>(d));
      }
    }
    std::reverse(levels.begin(), levels.end());
  }
  return table;
}

Grid grid_of(const DigitTable& table) {
  Grid grid(table.levels.size(), 1);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    for (std::size_t level = 0; level < table.levels[i].size(); ++level) grid[i] *= prime_of(table.mesh);
  }
  return grid;
}

DigitTable coarsen(DigitTable table, const Grid& grid) {
  for (std::size_t i = 0; i < grid.size(); ++i) table.levels[i].resize(depth_of(table.mesh, grid[i]));
  return table;
}

DigitTable deal(const DigitTable& first, const DigitTable& second, const Grid& finer, const DigitTable& wish) {
  DigitTable both = first;  // a level that is in both has one digit
  for (std::size_t i = 0; i < both.levels.size(); ++i) {
    if (second.levels[i].size() > both.levels[i].size()) both.levels[i] = second.levels[i];
  }
  return deal_toward(std::move(both), finer, wish);
}

DigitTable deal_toward(DigitTable within, const Grid& finer, const DigitTable& wish) {
  std::vector<bool> used = used_digits(within);
  // First what is wished for, so that no other place takes it.
  for (std::size_t i = 0; i < finer.size(); ++i) {
    std::vector<int>& levels = within.levels[i];
    const std::size_t depth = std::min(depth_of(within.mesh, finer[i]), wish.levels[i].size());
    while (levels.size() < depth && !at(used, wish.levels[i][levels.size()])) {
      const int digit = wish.levels[i][levels.size()];
      levels.push_back(digit);
      at(used, digit) = true;
    }
  }
  for (std::size_t i = 0; i < finer.size(); ++i) {
    while (within.levels[i].size() < depth_of(within.mesh, finer[i])) {
      const auto free = std::find(used.begin(), used.end(), false);
      ensure(free != used.end(), "the mesh supplies the cuts of a path");
      *free = true;
      within.levels[i].push_back(static_cast<int>(free - used.begin()));
    }
  }
  return within;
}

// The digits go along: whoever held a tile of what is merged gets one of the same number of what is cut.
DigitTable recut(DigitTable held, const Move& move, const DigitTable& /*wish*/) {
  std::vector<int>& from = at(held.levels, move.from);
  std::vector<int>& to = at(held.levels, move.to);
  const auto first = from.end() - static_cast<std::ptrdiff_t>(depth_of(held.mesh, move.factor));
  to.insert(to.end(), first, from.end());
  from.erase(first, from.end());
  return held;
}

Placement placement_of(const Shape& global, const DigitTable& table) {
  const std::vector<AxisPart>& parts = table.mesh.prime_parts();
  std::vector<std::vector<AxisPart>> axes(table.levels.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::vector<int>& levels = table.levels[i];
    for (std::size_t l = levels.size(); l-- > 0;) axes[i].push_back(at(parts, levels[l]));
    axes[i] = merge_neighbours(axes[i]);
  }
  return Placement(DistributedType::cut(table.mesh, global, axes));
}

}  // namespace retile
