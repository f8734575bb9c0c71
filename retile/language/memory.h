// How much memory a program needs on a device: the values that are alive at once and what statements work with.
#pragma once

#include <cstdint>
#include <optional>

#include "retile/base/diagnostic.h"
#include "retile/language/program.h"
#include "retile/language/program_planner.h"

namespace retile::language {

// Bytes per device at the program's worst moment.
struct MemoryPeak {
  std::int64_t bytes = 0;
  int function = 0;    // where it is, in Program::functions
  int statement = -1;  // in its statements; -1: when it is entered
};

// Counted are
//   values         from the statement that makes them to their last use; parameters while caller or callee need them,
//                  those of main until their last use
//   spmd_op        the instructions' results from where they are made to their last use, besides its operands
//   redistribute,  the plan's largest pair of tiles before and after a step, the operand being the first of them
//   collectives    where this is its last use, and staying beside them where it is not
//   allreduce      the same for its two movements and the addition between them
//   calls          the callee's peak
// Throws InputError where bytes do not fit in 63 bits.
MemoryPeak find_memory_peak(ProgramPlanner& planner);

// The statement at which the program needs more bytes per device than the limit, if it does.
std::optional<Diagnostic> find_excess(ProgramPlanner& planner, std::int64_t limit_bytes);
std::optional<Diagnostic> find_excess(const Program& program, std::int64_t limit_bytes,
                                      const PlanOptions& options = {});

}  // namespace retile::language
