// Operations that a device computes on its own tiles.
//
// Integers wrap. Division of integers by zero fails. A conversion to i32 rounds toward zero, takes what is too large or
// too small to the nearest i32, and NaN to 0. max, relu and reduce_max give NaN where an operand is NaN. Sums are added
// in row-major order of the elements that are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/language/program.h"
#include "retile/memory/buffer.h"

namespace retile::runtime {

// Where a function is evaluated.
struct LocalContext {
  const Mesh& mesh;
  Device device;
  const SourceText& source;  // what ranges point into
};

struct LocalResults {
  std::vector<Buffer> arrays;   // row-major
  std::int64_t peak_bytes = 0;  // measured: language::local_peak_bytes()
};

// The tiles are the function's parameters, each as long as its type says. Intermediate results are freed after their
// last use. Throws RuntimeError where an integer is divided by zero or there is no memory.
LocalResults evaluate(const language::LocalFunction& function, std::span<const std::byte* const> tiles,
                      const LocalContext& context);

// Roughly how many arithmetic operations an evaluation takes.
double count_operations(const language::LocalFunction& function);

}  // namespace retile::runtime
