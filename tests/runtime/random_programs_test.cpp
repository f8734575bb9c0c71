// Random programs give the same bits on every engine, in any number of processes, by slicing, and lowered.
#include "tests/support/random_programs.h"

#include <gtest/gtest.h>

#include "retile/engines/threads/threads.h"
#include "retile/language/checker.h"
#include "retile/language/passes.h"
#include "retile/language/printer.h"
#include "tests/support/problems.h"
#include "tests/support/programs.h"

namespace retile::test {
namespace {

using language::LoweredProgram;

// As it is printed after its redistributions have become collectives.
LoweredProgram lowered(const std::string& text, const PlanOptions& options) {
  const language::CheckedProgram checked = language::read_program({"test.spmd", text});
  return program_of(to_string(tree_after(language::Pass::lower, checked, options)));
}

TEST(RandomPrograms, run_alike_everywhere) {
  const std::uint32_t count = is_sweep() ? 5000 : 150;
  for (std::uint32_t seed = 0; seed < count && !HasFailure(); ++seed) {
    SCOPED_TRACE(random_program(seed));
    run_everywhere(program_of(random_program(seed)), seed);
  }
}

TEST(RandomPrograms, run_alike_once_they_are_lowered) {
  const std::uint32_t count = is_sweep() ? 5000 : 150;
  const auto engine = make_threads_engine();
  for (std::uint32_t seed = 0; seed < count && !HasFailure(); ++seed) {
    const std::string text = random_program(seed);
    SCOPED_TRACE(text);
    const runtime::ProgramRun expected = run(program_of(text), *engine, seed);
    for (const Planning& planning : all_plannings()) {
      // Between boxes that have no grid in common there is only an exchange.
      if (planning.options.executor.transport == Executor::Transport::collectives && !divides_everywhere(seed))
        continue;
      EXPECT_EQ(run(lowered(text, planning.options), *engine, seed).results, expected.results) << planning.name;
    }
  }
}

}  // namespace
}  // namespace retile::test
