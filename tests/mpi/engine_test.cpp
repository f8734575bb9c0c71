// The engine in a process that has not started MPI.
#include <gtest/gtest.h>
#include <mpi.h>

#include "retile/engines/mpi/mpi_engine.h"
#include "tests/support/error_of.h"

namespace retile::mpi {
namespace {

TEST(MpiEngine, says_that_mpi_is_not_started) {
  const std::string expected = "MPI is not started: call MPI_Init before";
  EXPECT_EQ(test::error_of([] { make_mpi_engine(MPI_COMM_WORLD); }), expected);
  EXPECT_EQ(test::error_of([] { engine_of(MPI_COMM_WORLD); }), expected);
}

}  // namespace
}  // namespace retile::mpi
