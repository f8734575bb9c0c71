// Random programs that check: redistributions, local work, partial sums, calls.
#pragma once

#include <cstdint>
#include <string>

namespace retile::test {

// The same for the same seed.
std::string random_program(std::uint32_t seed);
// Whether all types of this program divide their arrays.
bool divides_everywhere(std::uint32_t seed);

}  // namespace retile::test
