#include "retile/emission/device_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

namespace retile::emission {
namespace {

std::int64_t value_of(const DeviceForm& form, Device device) {
  std::int64_t value = form.constant;
  for (const DigitTerm& term : form.terms) value += device / term.stride % term.size * term.factor;
  return value;
}

bool is_along(const Mesh& mesh, const std::vector<int>& axes, const std::vector<Device>& group) {
  for (std::size_t position = 0; position < group.size(); ++position) {
    Device expected = group.front();
    auto rest = static_cast<std::int64_t>(position);
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      expected += rest % mesh.axis(*axis).size * mesh.stride(mesh.whole(*axis));
      rest /= mesh.axis(*axis).size;
    }
    if (expected != group[position]) return false;
  }
  return true;
}

}  // namespace

std::optional<DeviceForm> find_form(const Mesh& mesh, const std::vector<std::int64_t>& numbers) {
  DeviceForm form{numbers.front(), {}};
  if (numbers.size() == 1) return form;
  for (const AxisPart& part : mesh.prime_parts()) {
    const std::int64_t stride = mesh.stride(part);
    const std::int64_t factor = numbers[static_cast<std::size_t>(stride)] - form.constant;
    if (factor == 0) continue;
    const bool is_joined = !form.terms.empty() && form.terms.back().stride == stride * part.size &&
                           form.terms.back().factor == factor * part.size;
    if (is_joined) {
      form.terms.back() = {stride, form.terms.back().size * part.size, factor};
    } else {
      form.terms.push_back({stride, part.size, factor});
    }
  }
  for (std::size_t device = 0; device < numbers.size(); ++device) {
    if (value_of(form, static_cast<Device>(device)) != numbers[device]) return std::nullopt;
  }
  return form;
}

std::vector<std::int64_t> along(const std::vector<Shape>& corners, std::size_t dimension) {
  std::vector<std::int64_t> numbers;
  for (const Shape& corner : corners) numbers.push_back(corner[dimension]);
  return numbers;
}

std::string expression_of(const DeviceForm& form, const std::function<std::string(const DigitTerm& term)>& digit) {
  std::string text;
  const auto append = [&](bool is_negative, const std::string& term) {
    if (text.empty()) {
      text = (is_negative ? "-" : "") + term;
    } else {
      text += (is_negative ? " - " : " + ") + term;
    }
  };
  const bool is_first = !form.terms.empty() && form.terms.front().factor < 0 && form.constant > 0;  // 3 - rank % 4
  const bool has_constant = form.constant != 0 || form.terms.empty();
  if (is_first) append(false, fmt::format("{}", form.constant));
  for (const DigitTerm& term : form.terms) {
    const std::int64_t factor = std::abs(term.factor);
    append(term.factor < 0, factor == 1 ? digit(term) : fmt::format("{} * {}", digit(term), factor));
  }
  if (has_constant && !is_first) append(form.constant < 0, fmt::format("{}", std::abs(form.constant)));
  return text;
}

std::string digit_text(const DigitTerm& term, std::int64_t device_count, std::string_view device,
                       std::string_view division) {
  std::string text(device);
  if (term.stride > 1) text += fmt::format(" {} {}", division, term.stride);
  if (term.stride * term.size < device_count) text += fmt::format(" % {}", term.size);
  return text;
}

std::optional<std::vector<int>> find_group_axes(const Mesh& mesh, const Groups& groups) {
  const std::vector<Device>& first = groups.front();
  const auto size = static_cast<std::int64_t>(first.size());
  std::vector<int> axes;  // minor to major: the axis along which each step between members goes
  for (std::int64_t position = 1; position < size;) {
    const Device step = first[static_cast<std::size_t>(position)] - first.front();
    int found = -1;
    for (int axis = 0; axis < mesh.axis_count(); ++axis) {
      if (mesh.axis(axis).size > 1 && mesh.stride(mesh.whole(axis)) == step) found = axis;
    }
    if (found < 0) return std::nullopt;
    axes.push_back(found);
    position *= mesh.axis(found).size;
    if (position > size) return std::nullopt;
  }
  std::reverse(axes.begin(), axes.end());
  const bool is_right = std::all_of(groups.begin(), groups.end(), [&](const std::vector<Device>& group) {
    return group.size() == first.size() && is_along(mesh, axes, group);
  });
  return is_right ? std::optional(axes) : std::nullopt;
}

std::optional<std::vector<int>> find_cut_axes(const Mesh& mesh, const DeviceForm& corners, std::int64_t tile) {
  if (corners.constant != 0) return std::nullopt;
  std::vector<DigitTerm> terms = corners.terms;
  std::sort(terms.begin(), terms.end(), [](const DigitTerm& a, const DigitTerm& b) { return a.factor < b.factor; });
  std::vector<int> axes;  // minor to major
  for (DigitTerm term : terms) {
    for (int axis = mesh.axis_count(); axis-- > 0 && term.size > 1;) {  // a term may span several axes
      const auto [stride, size] = std::pair(mesh.stride(mesh.whole(axis)), mesh.axis(axis).size);
      if (stride != term.stride || size == 1 || term.size % size != 0 || term.factor != tile) continue;
      axes.push_back(axis);
      tile *= size;
      term = {term.stride * size, term.size / size, term.factor * size};
    }
    if (term.size > 1) return std::nullopt;
  }
  std::reverse(axes.begin(), axes.end());
  return axes;
}

Mesh refine(const Mesh& mesh, const std::vector<AxisPart>& parts) {
  std::vector<Axis> axes;
  std::set<std::string> names;
  for (const Axis& axis : mesh.axes()) names.insert(axis.name);
  for (int i = 0; i < mesh.axis_count(); ++i) {
    std::set<std::int64_t> bounds{1, mesh.axis(i).size};
    for (const AxisPart& part : parts) {
      if (part.axis == i) bounds.insert({part.major, part.major * part.size});
    }
    if (bounds.size() <= 2) {
      axes.push_back(mesh.axis(i));
      continue;
    }
    for (auto bound = bounds.begin(); std::next(bound) != bounds.end(); ++bound) {
      std::string name = fmt::format("{}_{}", mesh.axis(i).name, std::distance(bounds.begin(), bound));
      while (!names.insert(name).second) name += "_";
      axes.push_back({name, *std::next(bound) / *bound});
    }
  }
  return Mesh(std::move(axes));
}

}  // namespace retile::emission
