// The memory that a program needs on a device: the arrays that are alive at once and the memory that statements use.
#pragma once

#include <cstdint>

#include "retile/base/diagnostic.h"
#include "retile/language/lowering.h"
#include "retile/plan/memory.h"

namespace retile::language {

// The largest number of bytes that a device holds at once.
struct MemoryPeak {
  std::int64_t bytes = 0;
  int function = 0;    // index into Program::functions
  int statement = -1;  // index into its statements; -1: on entry; the number of statements: on return
};

// Finds the peak of the memory that is in use at once when the program runs:
//   arrays         from the statement that makes them to the last use of a value that has them; the main function's
//                  arguments from the beginning. A movement without steps passes its operand's array on, a call passes
//                  on the arrays that its function returns, and an array that the main function returns twice is copied
//                  at the end
//   spmd_op        local_peak_bytes() beside its operands
//   movements      predict_peak_bytes(), with the operand donated if its array is not needed any longer
//   calls          the callee's peak
// A function that is called in very many ways is counted as if callers needed all arguments after the call.
// Throws InputError where bytes do not fit in 63 bits.
MemoryPeak find_memory_peak(const LoweredProgram& lowered, const EngineMemory& engine = {});

// The peak of one statement that moves data, counting only its operand. Throws like predict_peak_bytes().
std::int64_t peak_of_movement(const Movement& movement, std::int64_t element_size, TileUse use,
                              const EngineMemory& engine = {});

// The place of the peak in the source.
SourceRange place_of(const MemoryPeak& peak, const Program& program);

// The diagnostic for a program that needs more memory than the limit.
Diagnostic excess_of(const MemoryPeak& peak, const Program& program, std::int64_t limit_bytes);

}  // namespace retile::language
