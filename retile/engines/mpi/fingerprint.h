// Fingerprints of movements, by which ranks find out whether they were all given the same one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "retile/engines/processes.h"
#include "retile/plan/plan.h"

namespace retile::mpi {

// A number, from 0, of a movement whose groups and pairs are listed, and of its elements' size.
std::int64_t fingerprint(const Movement& movement, std::int64_t element_size);

// The parts that a fingerprint is made of, in words.
std::vector<Processes::Named> describe(const Movement& movement, std::int64_t element_size);

}  // namespace retile::mpi
