// Liveness of arrays: those of a function's values, and those that a device computes with.
#pragma once

#include <cstdint>
#include <vector>

#include "retile/language/program.h"

namespace retile::language {

// The number of the last statement that uses each value. For values that the function returns it is the number of
// statements; for unused values it is the statement that makes them, or -1 for a parameter.
std::vector<int> last_uses(const Function& function);

// The arrays of a local function. A reshape shares its operand's array, a parameter has an array of the caller's, and
// every other instruction makes one.
struct LocalLiveness {
  std::vector<int> owners;  // by instruction: the one that made its array
  // By owner: the last instruction that needs its array; beyond the last instruction for returned arrays.
  std::vector<int> last_uses;
};

LocalLiveness local_liveness(const LocalFunction& function);

// The most bytes of an evaluation's arrays that are alive at once, parameters not counted. Each array is freed after
// its last use. A returned array is copied if it is a parameter's or is returned twice. Throws RuntimeError where bytes
// do not fit in 63 bits.
std::int64_t local_peak_bytes(const LocalFunction& function);

}  // namespace retile::language
