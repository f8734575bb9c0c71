/* 8. C under MPI: rows of a matrix become columns while the program computes, in memory of the engine. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "retile/c_mpi.h"

static void require(retile_status status) {
  if (status == RETILE_OK) return;
  fprintf(stderr, "%s\n", retile_error_message());
  MPI_Abort(MPI_COMM_WORLD, (int)status);
}

static double element(int64_t i, int64_t j) { return (double)(1000 * i + j); }

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);

  /* Dimension 0 is cut along axis 0 of the mesh, then dimension 1; rows and columns need not divide. */
  const int64_t shape[2] = {10, 7}, devices = ranks;
  const int axis = 0, first_is_cut[2] = {1, 0}, second_is_cut[2] = {0, 1};
  retile_mesh* mesh;
  retile_layout *rows, *columns;
  retile_plan* plan;
  require(retile_mesh_create(1, &devices, NULL, &mesh));
  require(retile_layout_create(mesh, 2, shape, first_is_cut, &axis, &rows));
  require(retile_layout_create(mesh, 2, shape, second_is_cut, &axis, &columns));
  require(retile_plan_create(rows, columns, "f64", NULL, &plan));

  /* Collective. The communicator keeps the engine: the next call gives the same one. */
  retile_engine* engine;
  retile_run* run;
  require(retile_engine_mpi(MPI_COMM_WORLD, &engine));
  require(retile_run_create(plan, engine, NULL, NULL, &run));

  /* Ranks of a host read each other's tiles in memory of the engine. */
  int64_t source_bytes, target_bytes;
  void *source, *target;
  require(retile_run_bytes(run, 0, 0, &source_bytes, &target_bytes));
  require(retile_engine_allocate(engine, (size_t)source_bytes, &source));
  require(retile_engine_allocate(engine, (size_t)target_bytes, &target));

  int64_t first[2], end[2];
  require(retile_layout_tile(rows, rank, first, end));
  double* next = source;
  for (int64_t i = first[0]; i < end[0]; ++i)
    for (int64_t j = first[1]; j < end[1]; ++j) *next++ = element(i, j);

  const void* sources[1] = {source};
  void* targets[1] = {target};
  require(retile_run_start(run, sources, targets));
  /* ... here the program computes something else ... */
  require(retile_run_wait(run));

  int wrong = 0;
  require(retile_layout_tile(columns, rank, first, end));
  const double* got = target;
  for (int64_t i = first[0]; i < end[0]; ++i)
    for (int64_t j = first[1]; j < end[1]; ++j) wrong += *got++ != element(i, j);
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d elements are wrong\n", wrong);

  /* What one rank is refused when a run is made, all are. */
  retile_run* other = NULL;
  if (retile_run_create(rank == 1 ? NULL : plan, engine, NULL, NULL, &other) != RETILE_OK && rank == 0)
    puts(retile_error_message());

  require(retile_engine_release(engine, source));
  require(retile_engine_release(engine, target));
  retile_run_free(run);
  retile_engine_free(engine);
  retile_plan_free(plan);
  retile_layout_free(rows);
  retile_layout_free(columns);
  retile_mesh_free(mesh);
  MPI_Finalize();
  return 0;
}
