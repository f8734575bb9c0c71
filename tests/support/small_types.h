// Every type on every small mesh, for tests that hold for all of them.
#pragma once

#include <cstdint>
#include <functional>

#include "retile/types/distributed_type.h"

namespace retile::test {

// Visits the types of rank 1 to 3 on the meshes of at most `most_devices` devices: cut along whole
// axes, and along prime parts. Stops at the first fatal failure.
void for_each_small_type(std::int64_t most_devices, const std::function<void(const DistributedType&)>& visit);

}  // namespace retile::test
