// How long arrays are needed: those of a function's values, and those that a device computes with.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/language/program.h"

namespace retile::language {

// The last statement that uses each value: as many as there are statements for what the function returns, and for a
// value that nobody uses the one that makes it (-1 for a parameter).
std::vector<int> last_uses(const Function& function);

// A reshape looks at its operand's array; every other instruction makes one, a parameter has one of somebody else's.
struct LocalLiveness {
  std::vector<int> owners;  // by instruction: the one that made its array
  std::vector<int>
      last_uses;  // by owner: the last instruction that needs its array, beyond the end for what is returned
};

LocalLiveness local_liveness(const LocalFunction& function);

// The most bytes of an evaluation's arrays alive at once, parameters not counted. Each is freed after its last use;
// what is returned is copied where it is a parameter's or returned again. Throws RuntimeError where they do not fit in
// 63 bits.
std::int64_t local_peak_bytes(const LocalFunction& function);

}  // namespace retile::language
