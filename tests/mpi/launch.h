// Jobs, started by mpirun with the flags that this machine needs.
#pragma once

#include <string>
#include <vector>

#include "tests/support/process.h"

namespace retile::test {

// mpirun with these arguments. A job that takes more than a minute is ended, and a failure of the test.
ProcessResult launch(const std::vector<std::string>& job, const ProcessInput& input = {});
// The program on so many ranks.
ProcessResult run_job(int ranks, std::vector<std::string> program, const ProcessInput& input = {});

// How often the part is in the text.
int count_of(const std::string& part, const std::string& text);

}  // namespace retile::test
