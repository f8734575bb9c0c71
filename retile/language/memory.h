// How much memory a program needs on a device: the arrays that are alive at once and what statements work with.
#pragma once

#include <cstdint>

#include "retile/base/diagnostic.h"
#include "retile/language/lowering.h"
#include "retile/plan/memory.h"

namespace retile::language {

// Bytes per device at the program's worst moment.
struct MemoryPeak {
  std::int64_t bytes = 0;
  int function = 0;    // where it is, in Program::functions
  int statement = -1;  // in its statements; -1: when it is entered; as many as there are: when it returns
};

// The memory that is in use at once when the program runs:
//   arrays         from the statement that makes them to the last use of a value that has them; the main function's
//                  arguments from the beginning. A movement without steps gives its operand's array on, a call those
//                  that its function returns, and what the main function returns again is copied at the end
//   spmd_op        local_peak_bytes() beside its operands
//   movements      predict_peak_bytes() of them, the operand being donated where nobody needs its array any longer
//   calls          the callee's peak
// Where a function is called in very many ways, it is counted as if callers needed all arguments after the call.
// Throws InputError where bytes do not fit in 63 bits.
MemoryPeak find_memory_peak(const LoweredProgram& lowered, const EngineMemory& engine = {});

// The peak of one statement that moves data, counting its operand and nothing else. Throws as the prediction does.
std::int64_t peak_of_movement(const Movement& movement, std::int64_t element_size, TileUse use,
                              const EngineMemory& engine = {});

// Where it is in the source.
SourceRange place_of(const MemoryPeak& peak, const Program& program);

// The diagnostic for a program that needs more than the limit.
Diagnostic excess_of(const MemoryPeak& peak, const Program& program, std::int64_t limit_bytes);

}  // namespace retile::language
