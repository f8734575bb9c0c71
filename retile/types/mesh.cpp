#include "retile/types/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/base/nearest_name.h"
#include "retile/base/scanner.h"
#include "retile/base/utf8.h"

namespace retile {
namespace {

std::optional<Fault> name_fault(const std::string& name) {
  if (name.empty()) return Fault{"an axis has an empty name", {}};
  if (!is_printable(name)) return Fault{"an axis's name must be printable UTF-8", {}};
  return std::nullopt;
}

std::vector<AxisPart> prime_parts_of_axis(int axis, std::int64_t size) {
  std::vector<AxisPart> parts;
  std::int64_t major = 1;
  for (const std::int64_t prime : prime_factors(size)) {
    parts.push_back({axis, major, prime});
    major *= prime;
  }
  return parts;
}

}  // namespace

std::optional<Mesh::AxisFault> Mesh::find_fault(std::span<const Axis> axes) {
  std::set<std::string_view> seen;
  std::int64_t devices = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    const int index = static_cast<int>(i);
    if (const auto fault = name_fault(axis.name)) return AxisFault{index, *fault};
    if (!seen.insert(axis.name).second) {
      return AxisFault{index, {fmt::format("the mesh has two axes named {}", quote_name(axis.name)), {}}};
    }
    if (axis.size < 1) {
      return AxisFault{
          index, {fmt::format("the size of axis {} is {}", quote_name(axis.name), axis.size), "sizes start at 1"}};
    }
    if (axis.size > most_devices / devices) {
      return AxisFault{index, {"the mesh has too many devices", fmt::format("at most {} fit", most_devices)}};
    }
    devices *= axis.size;
  }
  return std::nullopt;
}

Mesh::Mesh(std::vector<Axis> axes) {
  if (const auto found = find_fault(axes)) throw InputError(found->fault);
  auto data = std::make_shared<Data>();
  data->strides.resize(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    data->strides[i] = data->device_count;
    data->device_count *= axes[i].size;
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto parts = prime_parts_of_axis(static_cast<int>(i), axes[i].size);
    data->prime_parts.insert(data->prime_parts.end(), parts.begin(), parts.end());
  }
  data->axes = std::move(axes);
  data_ = std::move(data);
}

std::optional<int> Mesh::find_axis(std::string_view name) const {
  for (int i = 0; i < axis_count(); ++i) {
    if (axis(i).name == name) return i;
  }
  return std::nullopt;
}

Mesh world_mesh(std::int64_t devices) { return Mesh({{"world", devices}}); }

bool is_part_of_axis(const Mesh& mesh, const AxisPart& part) {
  if (part.axis < 0 || part.axis >= mesh.axis_count()) return false;
  if (part == mesh.whole(part.axis)) return true;
  const std::int64_t most = mesh.axis(part.axis).size;  // larger factors might overflow below
  if (part.major < 1 || part.major > most || part.size < 2 || part.size > most) return false;
  bool starts = false;
  bool ends = false;
  for (const AxisPart& prime : mesh.prime_parts()) {
    if (prime.axis != part.axis) continue;
    starts = starts || prime.major == part.major;
    ends = ends || prime.major * prime.size == part.major * part.size;
  }
  return starts && ends;
}

bool overlap(const AxisPart& a, const AxisPart& b) {
  if (a.axis != b.axis) return false;
  if (a.size == 1 || b.size == 1) return a == b;
  return a.major < b.major * b.size && b.major < a.major * a.size;
}

std::vector<AxisPart> split_into_primes(const Mesh& mesh, std::span<const AxisPart> parts) {
  std::vector<AxisPart> primes;
  for (const AxisPart& part : parts) {
    if (part.size == 1) primes.push_back(part);
    const std::size_t first = primes.size();
    for (const AxisPart& prime : mesh.prime_parts()) {
      const bool inside = prime.axis == part.axis && prime.major >= part.major && prime.major < part.major * part.size;
      if (inside) primes.push_back(prime);
    }
    std::reverse(primes.begin() + static_cast<std::ptrdiff_t>(first), primes.end());
  }
  return primes;
}

std::vector<AxisPart> prime_digits(const Mesh& mesh, std::span<const AxisPart> parts) {
  std::vector<AxisPart> digits = split_into_primes(mesh, parts);
  std::erase_if(digits, [](const AxisPart& part) { return part.size == 1; });
  return digits;
}

std::vector<AxisPart> merge_neighbours(std::span<const AxisPart> parts) {
  std::vector<AxisPart> merged;
  for (const AxisPart& part : parts) {
    const bool joins =
        !merged.empty() && merged.back().axis == part.axis && part.major * part.size == merged.back().major;
    if (joins) {
      merged.back() = {part.axis, part.major, part.size * merged.back().size};
    } else {
      merged.push_back(part);
    }
  }
  return merged;
}

Fault unknown_axis(const Mesh& mesh, std::string_view name) {
  std::vector<std::string> names;
  std::string known;
  for (const Axis& axis : mesh.axes()) {
    names.push_back(axis.name);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", quote_name(axis.name));
  }
  const std::optional<std::string> nearest = nearest_name(name, names);
  return {fmt::format("unknown axis {}", quote_name(name)),
          fmt::format("{}the mesh has {}", nearest ? fmt::format("did you mean {}? ", quote_name(*nearest)) : "",
                      known.empty() ? "no axes" : known)};
}

}  // namespace retile
