// An MPI program that moves its own buffers; here with one rank.
#include <mpi.h>

#include <vector>

#include "retile/mpi.h"
#include "retile/types/text.h"

int main(int argument_count, char** arguments) {
  MPI_Init(&argument_count, &arguments);
  const retile::Mesh mesh = retile::parse_mesh("x=1");
  const retile::Problem problem("", retile::parse_type("[8{x}8, 4]", mesh), retile::parse_type("[8, 4{x}4]", mesh));
  const std::vector<float> source(32, 1.5F);
  std::vector<float> target(32);
  retile::mpi::redistribute<float>(problem, MPI_COMM_WORLD, source, target);
  MPI_Finalize();
  return target == source ? 0 : 1;
}
