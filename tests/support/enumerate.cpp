#include "tests/support/enumerate.h"

#include <string>
#include <utility>

namespace retile::test {
namespace {

void extend_mesh(std::vector<Axis> axes, std::int64_t devices, std::int64_t most, std::vector<Mesh>& meshes) {
  if (!axes.empty()) meshes.emplace_back(axes);
  for (std::int64_t size = 2; devices * size <= most; ++size) {
    std::vector<Axis> longer = axes;
    longer.push_back({std::string(1, static_cast<char>('a' + axes.size())), size});
    extend_mesh(std::move(longer), devices * size, most, meshes);
  }
}

using Cuts = std::vector<std::vector<AxisPart>>;

// Every way to place parts[next…] in the dimensions, added to `all` where the shape divides.
void place_parts(const std::vector<AxisPart>& parts, std::size_t next, Cuts& cuts, std::vector<Cuts>& all) {
  if (next == parts.size()) {
    all.push_back(cuts);
    return;
  }
  place_parts(parts, next + 1, cuts, all);  // the part cuts nothing
  for (std::vector<AxisPart>& dimension : cuts) {
    for (std::size_t place = 0; place <= dimension.size(); ++place) {
      const auto at = static_cast<std::ptrdiff_t>(place);
      dimension.insert(dimension.begin() + at, parts[next]);
      place_parts(parts, next + 1, cuts, all);
      dimension.erase(dimension.begin() + at);
    }
  }
}

bool divides(const Shape& global, const Cuts& cuts) {
  for (std::size_t i = 0; i < global.size(); ++i) {
    std::int64_t tiles = 1;
    for (const AxisPart& part : cuts[i]) tiles *= part.size;
    if (global[i] % tiles != 0) return false;
  }
  return true;
}

std::vector<DistributedType> types_over(const Mesh& mesh, const std::vector<AxisPart>& parts, const Shape& global) {
  Cuts none(global.size());
  std::vector<Cuts> all;
  place_parts(parts, 0, none, all);
  std::vector<DistributedType> types;
  for (const Cuts& cuts : all) {
    if (divides(global, cuts)) types.push_back(DistributedType::cut(mesh, global, cuts));
  }
  return types;
}

// Draws at full size from the start: RapidCheck scales ranges down with its size, to their first values.
template <typename Draw>
auto at_nominal_size(Draw draw) {
  return rc::gen::resize(rc::kNominalSize, rc::gen::exec(std::move(draw)));
}

}  // namespace

std::vector<Mesh> all_meshes(std::int64_t most_devices) {
  std::vector<Mesh> meshes{Mesh({{"a", 1}})};
  extend_mesh({}, 1, most_devices, meshes);
  return meshes;
}

std::vector<DistributedType> all_types(const Mesh& mesh, const Shape& global) {
  std::vector<AxisPart> parts;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) parts.push_back(mesh.whole(axis));
  return types_over(mesh, parts, global);
}

std::vector<DistributedType> all_prime_types(const Mesh& mesh, const Shape& global) {
  return types_over(mesh, mesh.prime_parts(), global);
}

std::vector<Shape> useful_shapes(const Mesh& mesh, int rank) {
  std::vector<Shape> shapes{Shape()};
  for (int i = 0; i < rank; ++i) {
    std::vector<Shape> longer;
    for (const Shape& shape : shapes) {
      for (const std::int64_t factor : {1, 2}) {
        longer.push_back(shape);
        longer.back().push_back(mesh.device_count() * factor);
      }
    }
    shapes = std::move(longer);
  }
  return shapes;
}

rc::Gen<Mesh> arbitrary_mesh() {
  return at_nominal_size([] {
    std::vector<Axis> axes(static_cast<std::size_t>(*rc::gen::inRange(1, 5)));
    for (std::size_t i = 0; i < axes.size(); ++i) {
      axes[i] = {std::string(1, static_cast<char>('a' + i)), *rc::gen::inRange(1, 7)};
    }
    return Mesh(std::move(axes));
  });
}

Shape divisible_shape(const Mesh& mesh, int rank) {
  Shape shape(static_cast<std::size_t>(rank), mesh.device_count());
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] *= static_cast<std::int64_t>(i % 2 + 1);
  return shape;
}

rc::Gen<DistributedType> arbitrary_type(const Mesh& mesh, const Shape& global) {
  return at_nominal_size([mesh, global] {
    const int rank = static_cast<int>(global.size());
    Cuts cuts(global.size());
    for (const AxisPart& part : mesh.prime_parts()) {
      const int dimension = *rc::gen::inRange(-1, rank);
      if (dimension < 0) continue;
      std::vector<AxisPart>& axes = cuts[static_cast<std::size_t>(dimension)];
      const int place = *rc::gen::inRange(0, static_cast<int>(axes.size()) + 1);
      axes.insert(axes.begin() + place, part);
    }
    return DistributedType::cut(mesh, global, cuts);
  });
}

}  // namespace retile::test
