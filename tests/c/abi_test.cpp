// What programs that were compiled earlier rely on: the functions that the C libraries show, and the members of
// structs. abi.txt records both. Within a minor version lines are added to it, and none changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "retile/c.h"
#ifdef RETILE_C_MPI_LIBRARY
#include "retile/c_mpi.h"
#endif
#include "tests/support/process.h"

namespace retile::c::test {
namespace {

std::set<std::string> functions_of(const std::string& library) {
  const ::retile::test::ProcessResult symbols =
      ::retile::test::run_process({"/usr/bin/env", "nm", "--dynamic", "--defined-only", "--format=posix", library});
  EXPECT_EQ(symbols.status, 0) << symbols.errors;
  std::set<std::string> functions;
  std::istringstream lines(symbols.output);
  for (std::string line; std::getline(lines, line);) functions.insert(line.substr(0, line.find(' ')));
  return functions;
}

std::string recorded() {
  std::ifstream file(RETILE_SOURCE_DIR "/tests/c/abi.txt");
  return {std::istreambuf_iterator<char>(file), {}};
}

// The lines under a heading, up to an empty line.
std::set<std::string> recorded(const std::string& heading) {
  std::istringstream text(recorded());
  std::set<std::string> lines;
  bool is_here = false;
  for (std::string line; std::getline(text, line);) {
    if (is_here && !line.empty()) lines.insert(line);
    is_here = line == heading || (is_here && !line.empty());
  }
  return lines;
}

TEST(CBinaryInterface, has_the_functions_that_are_recorded) {
  EXPECT_THAT(functions_of(RETILE_C_LIBRARY), testing::ContainerEq(recorded("libretile_c.so")));
}

#ifdef RETILE_C_MPI_LIBRARY
TEST(CBinaryInterface, has_the_functions_with_mpi_that_are_recorded) {
  std::set<std::string> expected = recorded("libretile_c.so");
  expected.merge(recorded("libretile_c_mpi.so, beside these"));
  std::set<std::string> shown = functions_of(RETILE_C_MPI_LIBRARY);
  if (shown.count("retile_fortran_run_create") > 0) expected.merge(recorded("with the Fortran module"));
  EXPECT_THAT(shown, testing::ContainerEq(expected));
}
#endif

#define RETILE_STRUCT(type) #type ": " << sizeof(type) << " bytes"
#define RETILE_MEMBER(type, member) ", " #member " at " << offsetof(type, member)

std::set<std::string> lines_of(const std::ostringstream& structs) {
  std::istringstream lines(structs.str());
  std::set<std::string> found;
  for (std::string line; std::getline(lines, line);) found.insert(line);
  return found;
}

TEST(CBinaryInterface, has_the_structs_that_are_recorded) {
  std::ostringstream structs;
  structs << RETILE_STRUCT(retile_plan_options) << RETILE_MEMBER(retile_plan_options, planner)
          << RETILE_MEMBER(retile_plan_options, cost) << RETILE_MEMBER(retile_plan_options, memory_limit) << "\n";
  structs << RETILE_STRUCT(retile_memory) << RETILE_MEMBER(retile_memory, count)
          << RETILE_MEMBER(retile_memory, offsets) << RETILE_MEMBER(retile_memory, strides) << "\n";
  structs << RETILE_STRUCT(retile_statistics) << RETILE_MEMBER(retile_statistics, received_max)
          << RETILE_MEMBER(retile_statistics, staging_max) << RETILE_MEMBER(retile_statistics, seconds) << "\n";
  EXPECT_THAT(lines_of(structs), testing::ContainerEq(recorded("structs of c.h, where pointers have 8 bytes")));
}

#ifdef RETILE_C_MPI_LIBRARY
TEST(CBinaryInterface, has_the_structs_with_mpi_that_are_recorded) {
  std::ostringstream structs;
  structs << RETILE_STRUCT(retile_mpi_options) << RETILE_MEMBER(retile_mpi_options, transport)
          << RETILE_MEMBER(retile_mpi_options, staging_bytes) << RETILE_MEMBER(retile_mpi_options, device_map)
          << RETILE_MEMBER(retile_mpi_options, device_map_size) << "\n";
  EXPECT_THAT(lines_of(structs), testing::ContainerEq(recorded("structs of c_mpi.h, where pointers have 8 bytes")));
}
#endif

#undef RETILE_MEMBER
#undef RETILE_STRUCT

}  // namespace
}  // namespace retile::c::test
