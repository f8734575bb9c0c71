// A number that tells movements apart, for ranks to find out whether they were all given the same one.
#pragma once

#include <cstdint>
#include <span>

#include "retile/plan/plan.h"

namespace retile::mpi {

// Of a movement whose groups and pairs are listed, and of what else must be the same on all ranks. From 0.
std::int64_t fingerprint(const Movement& movement, std::span<const std::int64_t> more);

}  // namespace retile::mpi
