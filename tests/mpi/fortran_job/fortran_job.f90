! What ranks of a Fortran program refuse together, although one of them alone is wrong.
program fortran_job
  use mpi_f08
  use retile
  use expectations
  implicit none
  type(retile_mesh) :: mesh
  type(retile_layout) :: rows, columns, none
  type(retile_plan) :: plan, no_plan
  type(retile_engine) :: engine
  type(retile_run) :: run
  real(8) :: a(2, 8), b(8, 2), wrong(3, 8)
  integer :: rank, ranks, ierror

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (ranks /= 4) error stop "this job has 4 ranks"
  call retile_mesh_create(mesh, [4])
  call retile_layout_create(rows, mesh, [8, 8], [1, 0])
  call retile_layout_create(columns, mesh, [8, 8], [0, 1])
  call retile_plan_create(plan, rows, columns, "f64")
  call retile_engine_create(engine, MPI_COMM_WORLD)
  a = rank
  wrong = rank

  ! A plan that one rank has not made.
  if (rank == 3) call retile_plan_create(no_plan, rows, none, "f64", ierror=ierror)
  if (rank == 3) call expect(ierror == retile_input_error, "a layout that was not made is refused")
  if (rank /= 3) no_plan = plan
  call retile_run_create(run, no_plan, engine, a, b, ierror)
  call expect(ierror == retile_input_error, "all ranks refuse a plan that one has not")
  call expect(index(retile_error_message(), "the argument plan is NULL") > 0, retile_error_message())

  ! An array that is not the tile on one rank.
  if (rank == 3) then
    call retile_run_create(run, plan, engine, wrong, b, ierror)
  else
    call retile_run_create(run, plan, engine, a, b, ierror)
  end if
  call expect(ierror == retile_input_error, "all ranks refuse an array that one has wrong")
  call expect(index(retile_error_message(), "the source is 3 x 8, but this rank's tile is 2 x 8") > 0, retile_error_message())

  call retile_run_create(run, plan, engine, a, b)
  call retile_run_execute(run)
  call expect(all(b(1:2, :) == 0) .and. all(b(7:8, :) == 3), "elements are where they belong")

  ! Another array than the run was made with, on one rank: the others hear of it.
  if (rank == 3) then
    call retile_run_execute(run, wrong, b, ierror)
    call expect(ierror == retile_input_error, "another shape is refused")
  else
    call retile_run_execute(run, a, b, ierror)
    call expect(ierror == retile_run_error, "those that wait for the rank fail as well")
  end if
  call expect(index(retile_error_message(), "the arrays are not shaped, or do not lie in memory") > 0, retile_error_message())

  call retile_run_free(run)
  call retile_engine_free(engine)
  call MPI_Finalize()

end program
