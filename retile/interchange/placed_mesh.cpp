#include "retile/interchange/placed_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "retile/base/scanner.h"
#include "retile/interchange/readers.h"
#include "retile/types/text.h"

namespace retile::interchange {
namespace {

bool is_counted(const std::vector<Device>& devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i] != static_cast<Device>(i)) return false;
  }
  return true;
}

std::optional<Fault> find_device_fault(const std::vector<Device>& devices, std::int64_t count) {
  if (static_cast<std::int64_t>(devices.size()) != count) {
    return Fault{fmt::format("{} devices for a mesh of {}", devices.size(), count), {}};
  }
  std::set<Device> seen;
  for (const Device device : devices) {
    if (device >= Mesh::most_devices) return Fault{fmt::format("{} is no device", device), {}};
    if (!seen.insert(device).second) return Fault{fmt::format("device {} is listed twice", device), {}};
  }
  return std::nullopt;
}

constexpr int most_nesting = 32;

// list ::= '[' [ (list | index) { ',' (list | index) } ] ']'
void scan_list(Scanner& scanner, NestedList& list, std::size_t depth) {
  if (depth == most_nesting) scanner.fail_here("lists are nested too deeply");
  const std::size_t begin = scanner.next_position();
  scanner.expect("[", "at the start of a list of devices");
  std::int64_t count = 0;
  const bool is_first = list.shape.size() == depth;
  if (is_first) list.shape.push_back(-1);
  const bool is_inner = !scanner.looking_at("[");
  if (!is_first && is_inner != (depth + 1 == list.shape.size())) {
    scanner.fail_here("this list is nested otherwise than the ones before it");
  }
  do {
    if (is_inner) {
      list.numbers.push_back(scanner.index("a device"));
    } else {
      scan_list(scanner, list, depth + 1);
    }
    ++count;
  } while (scanner.accept(",") && !scanner.looking_at("]"));
  scanner.expect("]", "or ',' after a device");
  if (list.shape[depth] >= 0 && list.shape[depth] != count) {
    scanner.fail({begin, scanner.last().end},
                 fmt::format("{} entries, where a list before it has {}", count, list.shape[depth]));
  }
  list.shape[depth] = count;
}

}  // namespace

NestedList scan_nested_list(Scanner& scanner) {
  NestedList list;
  scan_list(scanner, list, 0);
  return list;
}

std::string nested_list_text(const Shape& shape, const std::vector<std::int64_t>& numbers) {
  if (shape.empty()) return fmt::format("{}", numbers.front());
  const std::size_t step = numbers.size() / static_cast<std::size_t>(shape.front());
  std::string text = "[";
  for (std::size_t i = 0; i < numbers.size(); i += step) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i);
    const std::vector<std::int64_t> part(begin, begin + static_cast<std::ptrdiff_t>(step));
    text += (i == 0 ? "" : ", ") + nested_list_text({shape.begin() + 1, shape.end()}, part);
  }
  return text + "]";
}

PlacedMesh place_mesh(const Scanner& scanner, SourceRange place, std::vector<Axis> axes, std::vector<Device> devices) {
  if (const auto found = Mesh::find_fault(axes)) scanner.fail(place, found->fault);
  PlacedMesh placed{Mesh(std::move(axes)), {}};
  if (devices.empty()) return placed;
  if (const auto fault = find_device_fault(devices, placed.mesh.device_count())) scanner.fail(place, *fault);
  if (!is_counted(devices)) placed.devices = std::move(devices);
  return placed;
}

std::vector<Device> devices_of(const Mesh& mesh, const std::vector<Device>& devices) {
  if (!devices.empty()) return devices;
  if (mesh.device_count() > most_listed) {
    throw InputError(fmt::format("{} devices are too many to be listed", mesh.device_count()),
                     fmt::format("at most {} are", most_listed));
  }
  std::vector<Device> all(static_cast<std::size_t>(mesh.device_count()));
  std::iota(all.begin(), all.end(), Device{0});
  return all;
}

std::string python_string(const std::string& text) {
  const bool has_single = text.find('\'') != std::string::npos;
  const char quote = has_single && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    out += c;
  }
  return out + quote;
}

PlacedMesh parse_placed_mesh(const SourceText& source) {
  Scanner scanner(source);
  const auto scan = [&]() -> std::optional<PlacedMesh> {
    if (scanner.looking_at("sdy.mesh")) return scan_shardy_mesh(scanner);
    if (scanner.looking_at("Mesh(") || scanner.looking_at("AbstractMesh(")) return scan_jax_mesh(scanner);
    if (scanner.looking_at("DeviceMesh(")) return scan_dtensor_mesh(scanner);
    if (scanner.looking_at("mesh.mesh") || scanner.looking_at("shard.grid")) return scan_mlir_mesh(scanner);
    return std::nullopt;
  };
  std::optional<PlacedMesh> placed = scan();
  if (!placed) return {parse_mesh(source), {}};
  scanner.expect_end("the mesh");
  return std::move(*placed);
}

}  // namespace retile::interchange
