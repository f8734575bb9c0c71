// Numbers that differ by device, as arithmetic on the device's number, and groups of devices as axes of a mesh: what a
// person would write where there is a rule, instead of a table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "retile/plan/plan.h"
#include "retile/types/mesh.h"

namespace retile::emission {

// factor * (device / stride % size)
struct DigitTerm {
  std::int64_t stride = 1;
  std::int64_t size = 1;
  std::int64_t factor = 1;

  bool operator==(const DigitTerm&) const = default;
};

// The sum of its terms, none of them 0, and a constant.
struct DeviceForm {
  std::int64_t constant = 0;
  std::vector<DigitTerm> terms;  // major to minor

  bool is_constant() const { return terms.empty(); }
};

// The form that gives every device of the mesh its number, or the one that all have; nothing where digits do not say
// it.
std::optional<DeviceForm> find_form(const Mesh& mesh, const std::vector<std::int64_t>& numbers);

// The corners of all devices along one dimension.
std::vector<std::int64_t> along(const std::vector<Shape>& corners, std::size_t dimension);

// "device / 4 % 2 * 8 + 1"; `digit` writes a term without its factor.
std::string expression_of(const DeviceForm& form, const std::function<std::string(const DigitTerm& term)>& digit);
// "device / 4 % 2", with the language's word for the device and its sign for whole division.
std::string digit_text(const DigitTerm& term, std::int64_t device_count, std::string_view device,
                       std::string_view division);

// The axes, major to minor, along which the members of each group lie in this order; nothing where they do not.
std::optional<std::vector<int>> find_group_axes(const Mesh& mesh, const Groups& groups);

// The axes, major to minor, along which a dimension is cut into tiles of this size where these are the corners.
std::optional<std::vector<int>> find_cut_axes(const Mesh& mesh, const DeviceForm& corners, std::int64_t tile);

// The mesh with each axis split where a part begins or ends, so that parts are whole axes.
Mesh refine(const Mesh& mesh, const std::vector<AxisPart>& parts);

}  // namespace retile::emission
