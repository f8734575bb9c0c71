// Meshes with their devices, as other systems write them.
#pragma once

#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/types/distributed_type.h"
#include "retile/types/mesh.h"

namespace retile::interchange {

struct PlacedMesh {
  Mesh mesh;
  std::vector<Device> devices;  // in row-major order of the mesh; none: 0, 1, 2, …
  std::string symbol = {};      // the name that texts refer to it by, as in @mesh; empty where it has none
};

// Parses a text that is one mesh: retile's own, or one of
//
//   Mesh('x': 2, 'y': 4)   Mesh(device_ids=array([[0, 1], [2, 3]]), axis_names=('x', 'y'))    JAX
//   sdy.mesh @mesh = <["x"=2, "y"=4]>                                                         Shardy
//   DeviceMesh([[0, 1], [2, 3]], mesh_dim_names=('dp', 'tp'))                                 DTensor
//   mesh.mesh @mesh(shape = 2x4)   shard.grid @grid(shape = 2x4)                              MLIR
//
// Throws InputError.
PlacedMesh parse_placed_mesh(const SourceText& source);

}  // namespace retile::interchange
