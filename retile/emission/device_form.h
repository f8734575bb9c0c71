// Rules in place of tables, as a person would write them: numbers that differ by device as arithmetic on the device's
// number, and groups of devices as axes of a mesh.
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

// One term of a form: factor * (device / stride % size).
struct DigitTerm {
  std::int64_t stride = 1;
  std::int64_t size = 1;
  std::int64_t factor = 1;

  bool operator==(const DigitTerm&) const = default;
};

// A number that depends on the device: the sum of a constant and terms, none of which is 0.
struct DeviceForm {
  std::int64_t constant = 0;
  std::vector<DigitTerm> terms;  // major to minor

  bool is_constant() const { return terms.empty(); }
};

// The form of these numbers, one for each device of the mesh or one for all; nothing where no sum of digits gives them.
std::optional<DeviceForm> find_form(const Mesh& mesh, const std::vector<std::int64_t>& numbers);

// The corners of all devices along one dimension.
std::vector<std::int64_t> along(const std::vector<Shape>& corners, std::size_t dimension);

// The form as an expression, "device / 4 % 2 * 8 + 1". `digit` writes a term without its factor.
std::string expression_of(const DeviceForm& form, const std::function<std::string(const DigitTerm& term)>& digit);
// A term without its factor, "device / 4 % 2". `device` and `division` are how the language writes the device's number
// and integer division.
std::string digit_text(const DigitTerm& term, std::int64_t device_count, std::string_view device,
                       std::string_view division);

// The axes, major to minor, along which the members of each group lie in this order; nothing where they do not.
std::optional<std::vector<int>> find_group_axes(const Mesh& mesh, const Groups& groups);

// The axes, major to minor, that cut a dimension into tiles of this size with these corners; nothing where no axes do.
std::optional<std::vector<int>> find_cut_axes(const Mesh& mesh, const DeviceForm& corners, std::int64_t tile);

// The mesh with each axis split where a part begins or ends, so that parts are whole axes.
Mesh refine(const Mesh& mesh, const std::vector<AxisPart>& parts);

}  // namespace retile::emission
