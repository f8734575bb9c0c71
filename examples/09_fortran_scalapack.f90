! 9. Fortran: a matrix of ScaLAPACK gets other blocks on another grid, out of and into arrays with leading dimensions.
! pdgemr2d does the same.
program matrices
  use mpi_f08
  use retile
  implicit none
  integer, parameter :: rows = 1000, columns = 700, padding = 3
  type(retile_layout) :: source, target
  type(retile_plan) :: plan
  type(retile_engine) :: engine
  type(retile_run) :: run
  double precision, allocatable :: a(:, :), b(:, :), expected(:, :)
  integer :: from(9), to(9), rank, ranks, wrong
  external :: blacs_get, blacs_gridinit, blacs_gridinfo, blacs_gridexit, descinit, pdgemr2d
  integer, external :: numroc

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (ranks /= 4) error stop "start this with 4 ranks"
  call make_matrix(2, 2, 32, 32, 0, from, a)
  call make_matrix(1, 4, 48, 40, 2, to, b)
  expected = b
  call random_number(a)
  call pdgemr2d(rows, columns, a, 1, 1, from, expected, 1, 1, to, from(2))

  call retile_layout_from_descriptor(source, from, 2, 2, "R")   ! the grids of the BLACS contexts
  call retile_layout_from_descriptor(target, to, 1, 4, "R")
  call retile_plan_create(plan, source, target, "f64")
  call retile_engine_create(engine, MPI_COMM_WORLD)
  call retile_run_create(run, plan, engine, a(:size(a, 1) - padding, :), b(:size(b, 1) - padding, :))
  call retile_run_execute(run)

  wrong = count(b /= expected)
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) write (*, "(i0, a)") wrong, " elements differ from pdgemr2d"

  call retile_run_free(run)
  call retile_engine_free(engine)
  call retile_plan_free(plan)
  call retile_layout_free(source)
  call retile_layout_free(target)
  call blacs_gridexit(from(2))
  call blacs_gridexit(to(2))
  call MPI_Finalize()

contains

  ! A descriptor, and this process's part of its matrix: -1, with rows below that are not the matrix's.
  subroutine make_matrix(grid_rows, grid_columns, row_block, column_block, first_column, desc, part)
    integer, intent(in) :: grid_rows, grid_columns, row_block, column_block, first_column
    integer, intent(out) :: desc(9)
    double precision, allocatable, intent(out) :: part(:, :)
    integer :: context, shape(2), place(2), own(2), info
    call blacs_get(-1, 0, context)
    call blacs_gridinit(context, "R", grid_rows, grid_columns)
    call blacs_gridinfo(context, shape(1), shape(2), place(1), place(2))
    own(1) = numroc(rows, row_block, place(1), 0, shape(1))
    own(2) = numroc(columns, column_block, place(2), first_column, shape(2))
    call descinit(desc, rows, columns, row_block, column_block, 0, first_column, context, own(1) + padding, info)
    allocate (part(own(1) + padding, own(2)))
    part = -1
  end subroutine

end program
