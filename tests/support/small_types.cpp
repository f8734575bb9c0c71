#include "tests/support/small_types.h"

#include <gtest/gtest.h>

#include "tests/support/enumerate.h"

namespace retile::test {

void for_each_small_type(std::int64_t most_devices, const std::function<void(const DistributedType&)>& visit) {
  for (const Mesh& mesh : all_meshes(most_devices)) {
    for (int rank = 1; rank <= 3; ++rank) {
      for (const Shape& global : useful_shapes(mesh, rank)) {
        for (const auto& types : {all_types(mesh, global), all_prime_types(mesh, global)}) {
          for (const DistributedType& type : types) {
            visit(type);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

}  // namespace retile::test
