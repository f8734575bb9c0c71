// Programs as text, run on made-up arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/language/lowering.h"
#include "retile/runtime/runtime.h"

namespace retile::test {

// Called "test.spmd", and lowered. Throws InputError where it is at fault.
language::LoweredProgram program_of(const std::string& text, const PlanOptions& options = {});

// The tiles of the engine's devices, the same arrays as the command makes up for this seed.
std::vector<runtime::TileBuffers> made_up_arguments(const language::LoweredProgram& program,
                                                    const std::vector<Device>& devices, std::uint64_t seed = 0);

// The reference engine and the threads engine.
std::vector<std::unique_ptr<Engine>> all_engines();

// Runs on made-up arguments.
runtime::ProgramRun run(const language::LoweredProgram& program, Engine& engine, std::uint64_t seed = 0);

// Runs on every engine, in one process and split over several, and by slicing, and expects all results to have the same
// bits and every engine to need the memory that was predicted; gives the results of the reference engine.
runtime::ProgramRun run_everywhere(const language::LoweredProgram& program, std::uint64_t seed = 0);

// A result of the main function put together, f32, f64 and i32 as doubles.
std::vector<double> global_array(const language::LoweredProgram& program, const runtime::ProgramRun& run,
                                 std::size_t result = 0);
// The main function's made-up arguments in the same manner.
std::vector<double> global_argument(const language::LoweredProgram& program, std::size_t parameter,
                                    std::uint64_t seed = 0);

// What a RuntimeError says; "no error" where there is none.
std::string failure_of(const language::LoweredProgram& program, Engine& engine);

}  // namespace retile::test
