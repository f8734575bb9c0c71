#include "retile/drawing/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "retile/base/utf8.h"
#include "retile/drawing/colors.h"
#include "retile/drawing/picture.h"
#include "retile/plan/text.h"

namespace retile::drawing {
namespace {

constexpr std::size_t most_columns = 16;  // of cells; also the most rows and layers
constexpr std::size_t least_width = 33;   // characters of a picture
constexpr std::size_t most_width = 100;   // characters of a line

// A character with its background. Lines are joined side by side before they are printed.
struct Glyph {
  std::string character = " ";
  std::optional<Color> background;
};
using Line = std::vector<Glyph>;
using Block = std::vector<Line>;

struct Cell {
  std::vector<std::size_t> boxes;  // boxes in the cell, ascending; neighbours with the same boxes are one tile
  std::vector<Device> devices;     // their holders, ascending
};

// The places where boxes begin and end along a dimension, with neighbours merged until they are few.
std::vector<std::int64_t> edges_of(const Scene& scene, const std::vector<const HeldBox*>& boxes, int dimension) {
  if (dimension < 0) return {0, 1};
  std::vector<std::int64_t> edges{0, std::max<std::int64_t>(1, scene.dimensions[index(dimension)].size)};
  for (const HeldBox* held : boxes) {
    edges.insert(edges.end(), {held->box.lo[index(dimension)], held->box.hi[index(dimension)]});
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  const std::size_t intervals = edges.size() - 1;
  const std::size_t run = (intervals + most_columns - 1) / most_columns;
  std::vector<std::int64_t> folded;
  for (std::size_t i = 0; i < intervals; i += run) folded.push_back(edges[i]);
  folded.push_back(edges.back());
  return folded;
}

// The cells of one layer, row by row.
struct Table {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<Cell> cells;

  const Cell& at(std::size_t row, std::size_t column) const { return cells[row * columns + column]; }
};

class FrameText {
 public:
  FrameText(const Scene& scene, const SceneFrame& frame) : scene_(scene), drawn_(drawn_dimensions(scene, frame)) {
    for (const HeldBox& held : frame.boxes) {
      if (is_shown(frame, drawn_, held.box)) shown_.push_back(&held);
    }
    row_edges_ = edges_of(scene, shown_, drawn_.rows);
    column_edges_ = edges_of(scene, shown_, drawn_.columns);
    layer_edges_ = edges_of(scene, shown_, drawn_.layers);
  }

  std::vector<Block> blocks() const {
    std::vector<Table> tables;
    for (std::size_t i = 0; i + 1 < layer_edges_.size(); ++i) {
      tables.push_back(table_of({layer_edges_[i], layer_edges_[i + 1]}));
    }
    const std::size_t width = cell_width(tables);
    std::vector<Block> blocks;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      Block block = render(tables[i], width);
      if (drawn_.layers >= 0) block.insert(block.begin(), layer_name(i, block.front().size()));
      blocks.push_back(std::move(block));
    }
    return blocks;
  }

  // A text such as "layers dimension 0 (4), rows dimension 1 (8), columns dimension 2 (8)".
  std::string legend() const {
    std::vector<std::string> names;
    for (const auto& [role, dimension] :
         {std::pair{"layers", drawn_.layers}, {"rows", drawn_.rows}, {"columns", drawn_.columns}}) {
      if (dimension < 0) continue;
      const SceneDimension& drawn = scene_.dimensions[index(dimension)];
      names.push_back(fmt::format("{} {} ({})", role, printable(drawn.label), group_digits(drawn.size)));
    }
    return fmt::format("{}", fmt::join(names, ", "));
  }

 private:
  static Interval along(const Box& box, int dimension) {
    if (dimension < 0) return {0, 1};
    return {box.lo[index(dimension)], box.hi[index(dimension)]};
  }

  Table table_of(Interval layer) const {
    Table table{row_edges_.size() - 1, column_edges_.size() - 1, {}};
    table.cells.resize(table.rows * table.columns);
    const auto meets = [](Interval a, const std::vector<std::int64_t>& edges, std::size_t i) {
      return intersect(a, {edges[i], edges[i + 1]}).size() > 0;
    };
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      const HeldBox& held = *shown_[i];
      if (intersect(layer, along(held.box, drawn_.layers)).size() == 0) continue;
      for (std::size_t row = 0; row < table.rows; ++row) {
        if (!meets(along(held.box, drawn_.rows), row_edges_, row)) continue;
        for (std::size_t column = 0; column < table.columns; ++column) {
          if (!meets(along(held.box, drawn_.columns), column_edges_, column)) continue;
          Cell& cell = table.cells[row * table.columns + column];
          cell.boxes.push_back(i);
          cell.devices.insert(cell.devices.end(), held.holders.begin(), held.holders.end());
        }
      }
    }
    for (Cell& cell : table.cells) {
      std::sort(cell.devices.begin(), cell.devices.end());
      cell.devices.erase(std::unique(cell.devices.begin(), cell.devices.end()), cell.devices.end());
    }
    return table;
  }

  // The width of a cell: that of the longest list that is shown in full, within limits.
  static std::size_t cell_width(const std::vector<Table>& tables) {
    const std::size_t columns = tables.front().columns;
    std::size_t wanted = (least_width - 1) / columns - 1;
    for (const Table& table : tables) {
      for (const Cell& cell : table.cells) wanted = std::max(wanted, list_devices(cell.devices, 4).size() + 2);
    }
    return std::min(wanted, (most_width - 1) / columns - 1);
  }

  static std::string label_of(const Cell& cell, std::size_t width) {
    for (std::size_t most = std::min<std::size_t>(cell.devices.size(), 8); most > 0; --most) {
      std::string text = list_devices(cell.devices, most);
      if (text.size() <= width) return text;
    }
    const std::string first = cell.devices.empty() ? "" : fmt::format("{}+", cell.devices.front());
    return first.size() <= width ? first : "";
  }

  Block render(const Table& table, std::size_t width) const {
    // Pictures without rows are one line high, others at least four.
    const std::size_t height = drawn_.rows < 0 ? 1 : std::max<std::size_t>(1, 4 / table.rows);
    Block block(table.rows * (height + 1) + 1, Line(table.columns * (width + 1) + 1));
    for (std::size_t row = 0; row < table.rows; ++row) {
      for (std::size_t column = 0; column < table.columns; ++column) {
        const Cell& cell = table.at(row, column);
        const bool goes_on = (row > 0 && table.at(row - 1, column).boxes == cell.boxes) ||
                             (column > 0 && table.at(row, column - 1).boxes == cell.boxes);
        paint(block, cell, goes_on ? "" : label_of(cell, width), {row * (height + 1) + 1, column * (width + 1) + 1},
              {height, width});
      }
    }
    put_borders(block, table, height, width);
    return block;
  }

  struct Place {
    std::size_t row = 0;
    std::size_t column = 0;
  };

  // Paints a band of the cell for each holder, as far as there are characters, and the label in the middle.
  void paint(Block& block, const Cell& cell, const std::string& label, Place corner, Place extent) const {
    const std::size_t before = (extent.column - label.size()) / 2;
    for (std::size_t row = 0; row < extent.row; ++row) {
      for (std::size_t column = 0; column < extent.column; ++column) {
        Glyph& glyph = block[corner.row + row][corner.column + column];
        if (cell.devices.empty()) {
          glyph.character = "·";
          continue;
        }
        const Device device = cell.devices[column * cell.devices.size() / extent.column];
        glyph.background = color_of(device, scene_.devices);
        const bool is_label = row == (extent.row - 1) / 2 && column >= before && column < before + label.size();
        if (is_label) glyph.character = label[column - before];
      }
    }
  }

  // Puts lines between cells of different tiles. Cells of one tile have none between them.
  static void put_borders(Block& block, const Table& table, std::size_t height, std::size_t width) {
    static constexpr std::array<const char*, 16> corners{" ", "╵", "╶", "└", "╷", "│", "┌", "├",
                                                         "╴", "┘", "─", "┴", "┐", "┤", "┬", "┼"};
    // Whether a line runs left of the cell, or above it; rows and columns may be one beyond the last.
    const auto left = [&](std::size_t row, std::size_t column) {
      if (row >= table.rows) return false;
      if (column == 0 || column == table.columns) return true;
      return table.at(row, column).boxes != table.at(row, column - 1).boxes;
    };
    const auto above = [&](std::size_t row, std::size_t column) {
      if (column >= table.columns) return false;
      if (row == 0 || row == table.rows) return true;
      return table.at(row, column).boxes != table.at(row - 1, column).boxes;
    };
    for (std::size_t row = 0; row <= table.rows; ++row) {
      for (std::size_t column = 0; column <= table.columns; ++column) {
        const std::size_t y = row * (height + 1);
        const std::size_t x = column * (width + 1);
        const bool up = row > 0 && left(row - 1, column);
        const bool before = column > 0 && above(row, column - 1);
        const std::size_t corner =
            (up ? 1U : 0U) | (above(row, column) ? 2U : 0U) | (left(row, column) ? 4U : 0U) | (before ? 8U : 0U);
        const auto inside = [&](std::size_t line, std::size_t place) { return block[line][place].background; };
        block[y][x].character = corners[corner];
        if (corner == 0) block[y][x].background = inside(y + 1, x + 1);
        for (std::size_t i = 1; column < table.columns && i <= width; ++i) {
          if (above(row, column)) {
            block[y][x + i].character = "─";
          } else {
            block[y][x + i].background = inside(y + 1, x + i);
          }
        }
        for (std::size_t i = 1; row < table.rows && i <= height; ++i) {
          if (left(row, column)) {
            block[y + i][x].character = "│";
          } else {
            block[y + i][x].background = inside(y + i, x + 1);
          }
        }
      }
    }
  }

  Line layer_name(std::size_t layer, std::size_t width) const {
    const Interval interval{layer_edges_[layer], layer_edges_[layer + 1]};
    std::string text = printable(scene_.dimensions[index(drawn_.layers)].label) + " at ";
    text += interval.size() == 1 ? fmt::format("{}", interval.lo) : fmt::format("{}:{}", interval.lo, interval.hi);
    Line line;
    for (std::string& character : split_characters(text)) line.push_back({std::move(character), {}});
    line.resize(width);
    return line;
  }

  const Scene& scene_;
  const DrawnDimensions drawn_;
  std::vector<const HeldBox*> shown_;
  std::vector<std::int64_t> row_edges_;
  std::vector<std::int64_t> column_edges_;
  std::vector<std::int64_t> layer_edges_;
};

std::string text_of(const Line& line, bool has_colors) {
  std::string out = "  ";
  std::optional<Color> current;
  for (const Glyph& glyph : line) {
    if (has_colors && glyph.background != current) {
      out += glyph.background ? fmt::format("\033[48;2;{};{};{};30m", glyph.background->red, glyph.background->green,
                                            glyph.background->blue)
                              : "\033[0m";
      current = glyph.background;
    }
    out += glyph.character;
  }
  if (current) out += "\033[0m";
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

// The blocks side by side, as many as fit into a line.
std::string render(const std::vector<Block>& blocks, bool has_colors) {
  const std::size_t width = blocks.front().front().size();
  const std::size_t fitting = std::max<std::size_t>(1, (most_width + 2) / (width + 2));
  std::string out;
  for (std::size_t first = 0; first < blocks.size(); first += fitting) {
    for (std::size_t row = 0; row < blocks.front().size(); ++row) {
      Line line;
      for (std::size_t i = first; i < std::min(blocks.size(), first + fitting); ++i) {
        if (i > first) line.resize(line.size() + 2);
        line.insert(line.end(), blocks[i][row].begin(), blocks[i][row].end());
      }
      out += text_of(line, has_colors);
    }
  }
  return out;
}

std::string frame_text(const Scene& scene, const SceneFrame& frame, const Palette& palette) {
  const FrameText text(scene, frame);
  std::string out = fmt::format("{}  // {} per device", Palette::paint(palette.heading, printable(frame.layout)),
                                quantity(scene, frame.elements));
  if (frame.idle_devices > 0) out += fmt::format(", {} hold nothing", count_of(frame.idle_devices, "device"));
  const std::string legend = text.legend();
  return out + "\n" + (legend.empty() ? "" : "  " + legend + "\n") + render(text.blocks(), !palette.heading.empty());
}

std::string step_text(const SceneStep& step, const SceneFrame& before, const Palette& palette) {
  std::string out = fmt::format("    -> {}{}\n       {}\n", Palette::paint(palette.step, step.operation),
                                step.cost ? fmt::format("  // cost {}", *step.cost) : "", step.sentence);
  constexpr std::size_t most_pieces = 4;
  if (step.pieces.empty()) return out;
  const Device device = step.pieces.front().to;
  std::vector<std::string> pieces;
  std::size_t count = 0;
  for (const Piece& piece : step.pieces) {
    if (piece.to != device || ++count > most_pieces) continue;
    pieces.push_back(fmt::format("{} from {}", to_string(own_box(before, piece.box)), piece.from));
  }
  if (count > most_pieces) pieces.push_back(fmt::format("and {} more", count - most_pieces));
  return out + fmt::format("       Device {} gets {}.\n", device, fmt::join(pieces, ", "));
}

}  // namespace

std::string to_text(const Scene& scene, const Palette& palette, std::optional<std::size_t> step) {
  const std::string id = scene.id.empty() ? "" : printable(scene.id) + ", ";
  std::string out = Palette::paint(palette.heading, fmt::format("mesh {}  // {}planner {}", printable(scene.mesh), id,
                                                                printable(scene.planner))) +
                    "\n";
  if (!scene.factors.empty()) out += fmt::format("// {}\n", scene.factors);
  const std::size_t first = step.value_or(0);
  const std::size_t last = step ? *step + 1 : scene.steps.size();
  for (std::size_t i = first; i <= last; ++i) {
    if (i > first) out += step_text(scene.steps[i - 1], scene.frames[i - 1], palette);
    out += frame_text(scene, scene.frames[i], palette);
  }
  if (scene.steps.empty()) out += "    // nothing to do\n";
  if (scene.cost) out += fmt::format("// {}\n", printable(to_string(*scene.cost)));
  return out + fmt::format("// {}\n", describe_peak(scene));
}

}  // namespace retile::drawing
