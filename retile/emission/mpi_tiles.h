// Who holds what, as functions of the rank in emitted MPI code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/emission/device_form.h"
#include "retile/plan/plan.h"
#include "retile/types/held_runs.h"

namespace retile::emission {

// How emitted code says what a rank holds.
enum class TileForm {
  boxes,  // as one box or a list of boxes
  runs,   // as one box with gaps: runs of neighbouring elements in each dimension
};

class TilePrinter {
 public:
  // `shape` is that of the array before any step: in the plan's view for boxes, as it is for runs. Boxes have all of
  // its dimensions: those that a reduction removes are kept with one element.
  TilePrinter(const Plan& plan, Shape shape, TileForm form);

  // The name of the function that returns a rank's tiles. Adds the function where it is new.
  std::string name_of(const Placement& placement, const std::string& words);
  // The functions, and what they call.
  const std::string& functions() const { return functions_; }
  std::string helpers() const;
  // Whether the form says all that was named. Lists of boxes have no runs.
  bool fits() const { return fits_; }
  // Whether tiles are listed, rank by rank.
  bool has_lists() const { return has_lists_; }

  // What every device holds in each dimension; nothing where that is no box, with gaps or without.
  std::optional<std::vector<LocalArray>> arrays_of(const Placement& placement) const;

  Box padded(const Box& box) const;
  // Numbers by rank: an expression, or a table that is declared in `tables`.
  std::string number(const std::vector<std::int64_t>& numbers, const char* table, std::string& tables) const;

 private:
  // What ranks hold of a dimension, by the number of a rank's tile along it.
  struct DimensionCut {
    DeviceForm number;
    std::vector<std::vector<HeldRun>> runs;
    std::vector<std::int64_t> lengths;  // of ranks' own arrays
    std::string in_turn = {};           // the arguments that give these runs, but for the number; empty: none do
  };
  // The cuts of a placement, and the dimensions of ranks' own arrays, outermost first.
  struct Cuts {
    std::vector<DimensionCut> dimensions;
    std::vector<int> order;
  };

  static DimensionCut cut_of_dimension(const MeshLayout& layout, std::size_t dimension,
                                       const std::vector<LocalArray>& arrays);
  std::optional<Cuts> cuts_of_layout(const Placement& placement, std::vector<LocalArray>* arrays) const;
  std::optional<Cuts> cuts_of_boxes(const std::vector<Box>& boxes) const;
  std::optional<std::string> grid_text(const Placement& placement);
  std::optional<std::string> packed_text(const Cuts& cuts);
  std::string runs_text(const Cuts& cuts);
  std::string dimension_text(const DimensionCut& cut, std::size_t dimension, std::string& lines);
  std::string body_of_boxes(const Placement& placement);
  std::string body_of_parts(const Placement& placement);
  std::string body_of(const Placement& placement);

  Shape padded(const Shape& given, std::int64_t fill) const;
  std::string expression(const DeviceForm& form) const;
  // Whether the plan sees dimensions in factors that the code does not.
  bool is_viewed() const { return form_ == TileForm::runs && !plan_.view.empty(); }
  std::size_t own_rank(const Placement& placement) const {
    return is_viewed() ? plan_.view.size() : static_cast<std::size_t>(placement.rank());
  }
  const char* box_name() const { return form_ == TileForm::boxes ? "Box" : "Corners"; }

  const Plan& plan_;
  const Shape shape_;
  const TileForm form_;
  std::vector<int> removed_;  // dimensions that a reduction removes
  std::vector<Placement> known_;
  std::string functions_;
  bool fits_ = true;
  bool has_lists_ = false;
  bool uses_packed_ = false;
  bool uses_grid_ = false;
  bool uses_between_ = false;
  bool uses_in_turn_ = false;
};

// Numbers in braces, "{1, 2}".
std::string braced(const Shape& numbers);
std::string braced(const std::vector<std::string>& texts);
std::string text_of(const Box& box);
// The code with each '@' replaced by the next of the texts.
std::string filled(std::string_view code, const std::vector<std::string>& texts);

}  // namespace retile::emission
