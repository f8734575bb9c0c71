// Meshes with their devices, as other systems write them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/base/scanner.h"
#include "retile/types/distributed_type.h"
#include "retile/types/mesh.h"

namespace retile::interchange {

struct PlacedMesh {
  Mesh mesh;
  std::vector<Device> devices;  // in row-major order of the mesh; none: 0, 1, 2, …
  std::string symbol = {};      // what texts refer to it by, as in @mesh; empty where it has none
};

// The whole text is one mesh: retile's own, or one of
//
//   Mesh('x': 2, 'y': 4)   Mesh(device_ids=array([[0, 1], [2, 3]]), axis_names=('x', 'y'))    JAX
//   sdy.mesh @mesh = <["x"=2, "y"=4]>                                                         Shardy
//   DeviceMesh([[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp'))                                 DTensor
//   mesh.mesh @mesh(shape = 2x4)   shard.grid @grid(shape = 2x4)                              MLIR
//
// Throws InputError.
PlacedMesh parse_placed_mesh(const SourceText& source);

// Numbers in nested lists, row-major: [[0, 1], [2, 3]].
struct NestedList {
  Shape shape;
  std::vector<std::int64_t> numbers;
};
NestedList scan_nested_list(Scanner& scanner);
std::string nested_list_text(const Shape& shape, const std::vector<std::int64_t>& numbers);

// A mesh with these devices, none where they are 0, 1, 2, … Fails at the place where they are no mesh.
PlacedMesh place_mesh(const Scanner& scanner, SourceRange place, std::vector<Axis> axes, std::vector<Device> devices);

// The device numbers of a mesh, all of them: at most `most_listed`. Throws InputError.
std::vector<Device> devices_of(const Mesh& mesh, const std::vector<Device>& devices);
constexpr std::int64_t most_listed = std::int64_t{1} << 20U;

// 'x', as Python prints a string.
std::string python_string(const std::string& text);

}  // namespace retile::interchange
