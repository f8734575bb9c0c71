#include <fmt/core.h>

#include "retile/types/distributed_type.h"
#include "retile/types/mesh.h"
#include "retile/types/text.h"
#include "retile/version.h"

int main() {
  const retile::Mesh mesh = retile::parse_mesh(R"({"x": 4, "y": 2})");
  const retile::DistributedType type = retile::parse_type(R"([8{"x","y"}64, 16])", mesh);
  fmt::print("retile {}: {} elements per device\n", RETILE_VERSION, type.local_size());
  return type.local_size() == 8 * 16 ? 0 : 1;
}
