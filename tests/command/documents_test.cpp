// Every command in the documents prints what stands below it; those that need MPI or JAX are run in tests/mpi and
// tests/python.
#include "tests/support/documents.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace retile::test {
namespace {

std::vector<std::string> documents() {
  std::vector<std::string> paths{"README.md", "examples/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator(std::string(RETILE_SOURCE_DIR) + "/docs")) {
    if (entry.path().extension() == ".md") paths.push_back("docs/" + entry.path().filename().string());
  }
  return paths;
}

TEST(Documents, show_what_their_commands_print) {
  const std::string folder = std::filesystem::path(RETILE_COMMAND).parent_path();
  int count = 0;
  for (const std::string& path : documents()) {
    for (const ShownCommand& command : commands_in(path)) {
      if (!command.text.starts_with("retile ") || command.needs("python") || command.needs("mpirun")) continue;
      ++count;
      const std::string script = "export PATH=" + folder + ":$PATH; " + command.text + " 2>&1";
      const ProcessResult result = run_process({"/bin/bash", "-c", script}, {"", RETILE_SOURCE_DIR});
      EXPECT_TRUE(matches_shown(result.output, command.output)) << command.place << " prints\n"
                                                                << result.output << "instead of\n"
                                                                << command.output;
    }
  }
  EXPECT_GE(count, 5);
}

}  // namespace
}  // namespace retile::test
