// Random programs that check: redistributions, local work, partial sums, calls.
#pragma once

#include <cstdint>
#include <string>

namespace retile::test {

// The text of a program, which depends on the seed alone.
std::string random_program(std::uint32_t seed);
// Whether all types of this program divide their arrays.
bool divides_everywhere(std::uint32_t seed);

}  // namespace retile::test
