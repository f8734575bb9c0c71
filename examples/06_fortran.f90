! 6. Fortran under MPI: pencils along x become pencils along y, out of an array with a halo, while the program computes.
program pencils
  use mpi_f08
  use retile
  implicit none
  integer, parameter :: nx = 12, ny = 8, nz = 10
  type(retile_mesh) :: mesh
  type(retile_layout) :: along_x, along_y
  type(retile_plan) :: plan
  type(retile_engine) :: engine
  type(retile_run) :: run, other
  double precision, allocatable, asynchronous :: a(:, :, :), b(:, :, :)
  integer :: rank, ranks, first(3), last(3), i, j, k, wrong, ierror

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call retile_mesh_create(mesh, [ranks / 2, 2])
  call retile_layout_create(along_x, mesh, [nx, ny, nz], [0, 1, 2])   ! y cut along the first axis, z along the second
  call retile_layout_create(along_y, mesh, [nx, ny, nz], [1, 0, 2])
  call retile_plan_create(plan, along_x, along_y, "f64")
  if (rank == 0) write (*, "(a)", advance="no") retile_plan_text(plan)

  call retile_layout_tile(along_x, rank + 1, first, last)
  allocate (a(0:nx + 1, first(2) - 1:last(2) + 1, first(3):last(3)))   ! with a halo in x and y
  a = -1
  do k = first(3), last(3)
    do j = first(2), last(2)
      do i = 1, nx
        a(i, j, k) = element(i, j, k)
      end do
    end do
  end do
  call retile_engine_create(engine, MPI_COMM_WORLD)
  call retile_layout_tile(along_y, rank + 1, first, last)
  allocate (b(first(1):last(1), ny, first(3):last(3)))
  call retile_layout_tile(along_x, rank + 1, first, last)
  call retile_run_create(run, plan, engine, a(1:nx, first(2):last(2), :), b)
  call retile_run_start(run)
  ! ... here the program computes something else ...
  call retile_run_wait(run)

  wrong = 0
  do k = lbound(b, 3), ubound(b, 3)
    do j = 1, ny
      do i = lbound(b, 1), ubound(b, 1)
        if (b(i, j, k) /= element(i, j, k)) wrong = wrong + 1
      end do
    end do
  end do
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) write (*, "(i0, a)") wrong, " elements are wrong"

  ! What does not fit is told to all ranks, before anything is moved.
  call retile_run_create(other, plan, engine, a, b, ierror)
  if (rank == 0 .and. ierror == retile_input_error) write (*, "(a)") retile_error_message()

  call retile_run_free(run)
  call retile_engine_free(engine)
  call retile_plan_free(plan)
  call retile_layout_free(along_x)
  call retile_layout_free(along_y)
  call retile_mesh_free(mesh)
  call MPI_Finalize()

contains

  pure double precision function element(i, j, k)
    integer, intent(in) :: i, j, k
    element = 10000 * i + 100 * j + k
  end function
end program
