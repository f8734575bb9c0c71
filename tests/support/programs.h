// Programs as text, run on made-up arguments.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "retile/engines/engine.h"
#include "retile/language/program.h"
#include "retile/runtime/runtime.h"

namespace retile::test {

// Called "test.spmd". Throws InputError where it is at fault.
language::Program program_of(const std::string& text);

// The tiles of the engine's devices, the same arrays as the command makes up for this seed.
std::vector<runtime::TileBuffers> made_up_arguments(const language::Program& program,
                                                    const std::vector<Device>& devices, std::uint64_t seed = 0);

// The reference engine and the threads engine.
std::vector<std::unique_ptr<Engine>> all_engines();

// Runs on made-up arguments.
runtime::ProgramRun run(const language::Program& program, Engine& engine, std::uint64_t seed = 0);

// Runs on every engine, in one process and split over several, and by slicing, and expects all results to have the same
// bits and no engine to need more memory than predicted; gives the results of the reference engine.
runtime::ProgramRun run_everywhere(const language::Program& program, std::uint64_t seed = 0);

// A result of the main function put together, f32, f64 and i32 as doubles.
std::vector<double> global_array(const language::Program& program, const runtime::ProgramRun& run,
                                 std::size_t result = 0);
// The main function's made-up arguments in the same manner.
std::vector<double> global_argument(const language::Program& program, std::size_t parameter, std::uint64_t seed = 0);

// What a RuntimeError says; "no error" where there is none.
std::string failure_of(const language::Program& program, Engine& engine);

}  // namespace retile::test
