! What tests of the Fortran module expect. A rank on which something else happens says so and ends the job.
module expectations
  use mpi_f08
  implicit none

contains

  subroutine expect(is_right, what)
    logical, intent(in) :: is_right
    character(*), intent(in) :: what
    integer :: rank
    if (is_right) return
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    print "(a, i0, 2a)", "rank ", rank, ": not so: ", what
    call MPI_Abort(MPI_COMM_WORLD, 1)
  end subroutine

end module
