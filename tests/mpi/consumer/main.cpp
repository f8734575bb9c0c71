// An MPI program that moves its own buffers; here with one rank.
#include <mpi.h>

#include <cstddef>
#include <vector>

#include "retile/engines/mpi/mpi_engine.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"

int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  const retile::Mesh mesh = retile::parse_mesh("x=1");
  const retile::Problem problem("", retile::parse_type("[8{x}8, 4]", mesh), retile::parse_type("[8, 4{x}4]", mesh));
  const std::vector<float> source(32, 1.5F);
  std::vector<float> target(32);
  retile::mpi::execute(retile::make_plan(problem), MPI_COMM_WORLD, sizeof(float),
                       reinterpret_cast<const std::byte*>(source.data()), reinterpret_cast<std::byte*>(target.data()));
  MPI_Finalize();
  return target == source ? 0 : 1;
}
