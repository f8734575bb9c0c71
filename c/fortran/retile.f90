! retile for Fortran 2008 with assumed-type arrays (as mpi_f08 has them): over retile/c.h, for MPI programs with one device on each rank.
!
!   call retile_mesh_create(mesh, [4, 2])                                  ! 4 x 2 ranks, the second dimension fastest
!   call retile_layout_create(source, mesh, [12, 8, 10], [1, 2, 0])        ! dimension 1 cut along axis 1, 2 along 2, 3 not
!   call retile_layout_create(target, mesh, [12, 8, 10], [1, 0, 2])
!   call retile_plan_create(plan, source, target, "f64")
!   call retile_engine_create(engine, comm)
!   call retile_run_create(run, plan, engine, a, b)                        ! a and b are arrays or slices, moved as they lie
!   call retile_run_execute(run)
!
! Dimensions, axes, devices and elements count from 1, and bounds include both ends, as Fortran has it; dimensions are in the order
! in which they are declared. Every subroutine has an optional last argument ierror: retile_ok, or why it failed, with
! retile_error_message(). Without it, a failure prints the message and stops all ranks.
module retile
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int64_t, c_null_char, c_null_ptr, c_ptr, c_size_t, &
    c_associated, c_f_pointer, c_loc
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08, only: MPI_Abort, MPI_Comm, MPI_COMM_WORLD
  implicit none
  private

  integer, parameter, public :: retile_ok = 0, retile_input_error = 1, retile_run_error = 3, retile_internal_error = 70

  type, public :: retile_mesh
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: retile_layout
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: retile_plan
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: retile_engine
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: retile_transfer
    private
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: retile_run
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! The last execution, over all ranks: bytes of the device that received the most, and that had the most beyond its tiles.
  type, public, bind(c) :: retile_statistics
    integer(c_int64_t) :: received_max, staging_max
    real(c_double) :: seconds
  end type

  public :: retile_error_message, retile_version
  public :: retile_mesh_create, retile_mesh_parse, retile_mesh_free
  public :: retile_layout_create, retile_layout_parse, retile_layout_tile, retile_layout_text, retile_layout_free
  public :: retile_plan_create, retile_plan_verify, retile_plan_cost, retile_plan_lower_bound, retile_plan_text, retile_plan_free
  public :: retile_engine_create, retile_engine_free
  public :: retile_transfer_create, retile_transfer_add, retile_transfer_free
  public :: retile_run_create, retile_run_execute, retile_run_start, retile_run_test, retile_run_wait, retile_run_statistics
  public :: retile_run_free

  ! A run of a plan between two arrays, or of the arrays of a transfer.
  interface retile_run_create
    module procedure run_of_plan, run_of_transfer
  end interface
  ! Between the arrays that the run was made with, or others that are shaped and lie in memory alike.
  interface retile_run_execute
    module procedure execute_bound, execute_others
  end interface
  interface retile_run_start
    module procedure start_bound, start_others
  end interface

  interface
    function c_error_message() bind(c, name="retile_error_message") result(message)
      import; type(c_ptr) :: message
    end function
    function c_version() bind(c, name="retile_version") result(version)
      import; type(c_ptr) :: version
    end function
    pure function c_strlen(text) bind(c, name="strlen") result(length)
      import; type(c_ptr), value :: text; integer(c_size_t) :: length
    end function
    function c_mesh_parse(text, mesh) bind(c, name="retile_mesh_parse") result(status)
      import; character(kind=c_char), intent(in) :: text(*); type(c_ptr), intent(inout) :: mesh; integer(c_int) :: status
    end function
    function c_mesh_create(axes, sizes, names, mesh) bind(c, name="retile_mesh_create") result(status)
      import; integer(c_int), value :: axes; integer(c_int64_t), intent(in) :: sizes(*); type(c_ptr), value :: names
      type(c_ptr), intent(inout) :: mesh; integer(c_int) :: status
    end function
    subroutine c_mesh_free(mesh) bind(c, name="retile_mesh_free")
      import; type(c_ptr), value :: mesh
    end subroutine
    function c_layout_parse(mesh, text, layout) bind(c, name="retile_layout_parse") result(status)
      import; type(c_ptr), value :: mesh; character(kind=c_char), intent(in) :: text(*)
      type(c_ptr), intent(inout) :: layout; integer(c_int) :: status
    end function
    function c_layout_create(mesh, rank, shape, axis_counts, axes, layout) bind(c, name="retile_layout_create") result(status)
      import; type(c_ptr), value :: mesh; integer(c_int), value :: rank; integer(c_int64_t), intent(in) :: shape(*)
      integer(c_int), intent(in) :: axis_counts(*), axes(*); type(c_ptr), intent(inout) :: layout; integer(c_int) :: status
    end function
    function c_layout_rank(layout) bind(c, name="retile_layout_rank") result(rank)
      import; type(c_ptr), value :: layout; integer(c_int) :: rank
    end function
    function c_layout_tile(layout, device, first, end) bind(c, name="retile_layout_tile") result(status)
      import; type(c_ptr), value :: layout; integer(c_int64_t), value :: device
      integer(c_int64_t), intent(inout) :: first(*), end(*); integer(c_int) :: status
    end function
    function c_layout_text(layout, text, capacity, length) bind(c, name="retile_layout_text") result(status)
      import; type(c_ptr), value :: layout, text; integer(c_size_t), value :: capacity
      integer(c_size_t), intent(inout) :: length; integer(c_int) :: status
    end function
    subroutine c_layout_free(layout) bind(c, name="retile_layout_free")
      import; type(c_ptr), value :: layout
    end subroutine
    function c_plan_create(source, target, element, options, plan) bind(c, name="retile_plan_create") result(status)
      import; type(c_ptr), value :: source, target, options; character(kind=c_char), intent(in) :: element(*)
      type(c_ptr), intent(inout) :: plan; integer(c_int) :: status
    end function
    function c_plan_verify(plan) bind(c, name="retile_plan_verify") result(status)
      import; type(c_ptr), value :: plan; integer(c_int) :: status
    end function
    function c_plan_cost(plan) bind(c, name="retile_plan_cost") result(cost)
      import; type(c_ptr), value :: plan; integer(c_int64_t) :: cost
    end function
    function c_plan_lower_bound(plan) bind(c, name="retile_plan_lower_bound") result(bound)
      import; type(c_ptr), value :: plan; integer(c_int64_t) :: bound
    end function
    function c_plan_text(plan, text, capacity, length) bind(c, name="retile_plan_text") result(status)
      import; type(c_ptr), value :: plan, text; integer(c_size_t), value :: capacity
      integer(c_size_t), intent(inout) :: length; integer(c_int) :: status
    end function
    subroutine c_plan_free(plan) bind(c, name="retile_plan_free")
      import; type(c_ptr), value :: plan
    end subroutine
    function c_engine_mpi(comm, engine) bind(c, name="retile_engine_mpi_fortran") result(status)
      import; integer(c_int), value :: comm; type(c_ptr), intent(inout) :: engine; integer(c_int) :: status
    end function
    subroutine c_engine_free(engine) bind(c, name="retile_engine_free")
      import; type(c_ptr), value :: engine
    end subroutine
    function c_transfer_create(transfer) bind(c, name="retile_transfer_create") result(status)
      import; type(c_ptr), intent(inout) :: transfer; integer(c_int) :: status
    end function
    function c_transfer_add(transfer, name, source_layout, target_layout, element, engine, source, target) &
      bind(c, name="retile_fortran_transfer_add") result(status)
      import; type(c_ptr), value :: transfer, source_layout, target_layout, engine
      character(kind=c_char), intent(in) :: name(*), element(*)
      type(*), dimension(..), intent(in), asynchronous :: source
      type(*), dimension(..), asynchronous :: target
      integer(c_int) :: status
    end function
    function c_transfer_run(transfer, engine, max_bytes, run) bind(c, name="retile_transfer_run") result(status)
      import; type(c_ptr), value :: transfer, engine; integer(c_int64_t), value :: max_bytes
      type(c_ptr), intent(inout) :: run; integer(c_int) :: status
    end function
    subroutine c_transfer_free(transfer) bind(c, name="retile_transfer_free")
      import; type(c_ptr), value :: transfer
    end subroutine
    function c_run_create(plan, engine, source, target, run) bind(c, name="retile_fortran_run_create") result(status)
      import; type(c_ptr), value :: plan, engine
      type(*), dimension(..), intent(in), asynchronous :: source
      type(*), dimension(..), asynchronous :: target
      type(c_ptr), intent(inout) :: run; integer(c_int) :: status
    end function
    function c_run_bind(run, source, target) bind(c, name="retile_fortran_run_bind") result(status)
      import; type(c_ptr), value :: run
      type(*), dimension(..), intent(in), asynchronous :: source
      type(*), dimension(..), asynchronous :: target
      integer(c_int) :: status
    end function
    function c_run_execute(run) bind(c, name="retile_fortran_run_execute") result(status)
      import; type(c_ptr), value :: run; integer(c_int) :: status
    end function
    function c_run_start(run) bind(c, name="retile_fortran_run_start") result(status)
      import; type(c_ptr), value :: run; integer(c_int) :: status
    end function
    function c_run_test(run, done) bind(c, name="retile_run_test") result(status)
      import; type(c_ptr), value :: run; integer(c_int), intent(inout) :: done; integer(c_int) :: status
    end function
    function c_run_wait(run) bind(c, name="retile_run_wait") result(status)
      import; type(c_ptr), value :: run; integer(c_int) :: status
    end function
    function c_run_statistics(run, statistics) bind(c, name="retile_run_statistics") result(status)
      import; type(c_ptr), value :: run; type(retile_statistics), intent(inout) :: statistics; integer(c_int) :: status
    end function
    subroutine c_run_free(run) bind(c, name="retile_run_free")
      import; type(c_ptr), value :: run
    end subroutine
  end interface

  type, bind(c) :: plan_options
    type(c_ptr) :: planner = c_null_ptr, cost = c_null_ptr
    integer(c_int64_t) :: memory_limit = 0
  end type

contains

  ! ---- Errors and text.

  ! Why the last call that failed did so.
  function retile_error_message() result(message)
    character(:), allocatable :: message
    message = text_at(c_error_message())
  end function

  ! "0.1.0": of the library that runs.
  function retile_version() result(version)
    character(:), allocatable :: version
    version = text_at(c_version())
  end function

  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(address, letters, [c_strlen(address)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

  ! What a function of c.h that gives text says of a handle.
  function text_of(ask, handle) result(text)
    procedure(c_plan_text) :: ask
    type(c_ptr), intent(in) :: handle
    character(:), allocatable :: text
    character(kind=c_char), allocatable, target :: letters(:)
    integer(c_size_t) :: length
    length = 0
    if (ask(handle, c_null_ptr, 0_c_size_t, length) /= retile_ok) length = 0
    allocate (letters(length + 1))
    letters = c_null_char
    if (ask(handle, c_loc(letters), length + 1, length) /= retile_ok) letters = c_null_char
    text = text_at(c_loc(letters))
  end function

  ! Tells the caller, or ends all ranks where nobody asks.
  subroutine finish(status, ierror)
    integer(c_int), intent(in) :: status
    integer, optional, intent(out) :: ierror
    if (present(ierror)) then
      ierror = int(status)
    else if (status /= retile_ok) then
      write (error_unit, "(a)") retile_error_message()
      call MPI_Abort(MPI_COMM_WORLD, int(status))
    end if
  end subroutine

  function c_text(text) result(with_end)
    character(*), intent(in) :: text
    character(:), allocatable :: with_end
    with_end = trim(text) // c_null_char
  end function

  ! ---- Meshes: the last axis varies fastest, as in MPI_Cart_create.

  subroutine retile_mesh_create(mesh, sizes, ierror)
    type(retile_mesh), intent(inout) :: mesh
    integer, intent(in) :: sizes(:)
    integer, optional, intent(out) :: ierror
    call finish(c_mesh_create(int(size(sizes), c_int), int(sizes, c_int64_t), c_null_ptr, mesh%handle), ierror)
  end subroutine

  ! "row=4,column=2".
  subroutine retile_mesh_parse(mesh, text, ierror)
    type(retile_mesh), intent(inout) :: mesh
    character(*), intent(in) :: text
    integer, optional, intent(out) :: ierror
    call finish(c_mesh_parse(c_text(text), mesh%handle), ierror)
  end subroutine

  subroutine retile_mesh_free(mesh)
    type(retile_mesh), intent(inout) :: mesh
    call c_mesh_free(mesh%handle)
    mesh%handle = c_null_ptr
  end subroutine

  ! ---- Layouts.

  ! The axis of the mesh that cuts each dimension, from 1; 0: none.
  subroutine retile_layout_create(layout, mesh, shape, axes, ierror)
    type(retile_layout), intent(inout) :: layout
    type(retile_mesh), intent(in) :: mesh
    integer, intent(in) :: shape(:), axes(size(shape))
    integer, optional, intent(out) :: ierror
    integer(c_int) :: counts(size(shape))
    counts = merge(0_c_int, 1_c_int, axes == 0)
    call finish(c_layout_create(mesh%handle, int(size(shape), c_int), int(shape, c_int64_t), counts, &
                                int(pack(axes, axes /= 0), c_int) - 1_c_int, layout%handle), ierror)
  end subroutine

  ! "[3{row}12, 4{column}8, 10]" and whatever else docs/layouts.md has.
  subroutine retile_layout_parse(layout, mesh, text, ierror)
    type(retile_layout), intent(inout) :: layout
    type(retile_mesh), intent(in) :: mesh
    character(*), intent(in) :: text
    integer, optional, intent(out) :: ierror
    call finish(c_layout_parse(mesh%handle, c_text(text), layout%handle), ierror)
  end subroutine

  ! The first and the last element, in each dimension, of what a device (rank + 1) holds; the last is before the first where it
  ! holds nothing.
  subroutine retile_layout_tile(layout, device, first, last, ierror)
    type(retile_layout), intent(in) :: layout
    integer, intent(in) :: device
    integer, intent(out) :: first(:), last(:)
    integer, optional, intent(out) :: ierror
    integer(c_int64_t), allocatable :: lower(:), upper(:)
    integer(c_int) :: status
    integer :: rank
    rank = c_layout_rank(layout%handle)
    allocate (lower(rank), upper(rank))
    lower = 0
    upper = 0
    status = c_layout_tile(layout%handle, int(device - 1, c_int64_t), lower, upper)
    first = int(lower(:size(first))) + 1
    last = int(upper(:size(last)))
    call finish(status, ierror)
  end subroutine

  function retile_layout_text(layout) result(text)
    type(retile_layout), intent(in) :: layout
    character(:), allocatable :: text
    text = text_of(c_layout_text, layout%handle)
  end function

  subroutine retile_layout_free(layout)
    type(retile_layout), intent(inout) :: layout
    call c_layout_free(layout%handle)
    layout%handle = c_null_ptr
  end subroutine

  ! ---- Plans.

  ! planner: "auto", "wide", "paper", "direct", "lean"; memory_limit: bytes that a device may hold at once.
  subroutine retile_plan_create(plan, source, target, element, planner, memory_limit, ierror)
    type(retile_plan), intent(inout) :: plan
    type(retile_layout), intent(in) :: source, target
    character(*), intent(in) :: element
    character(*), optional, intent(in) :: planner
    integer(c_int64_t), optional, intent(in) :: memory_limit
    integer, optional, intent(out) :: ierror
    type(plan_options), target :: options
    character(:, kind=c_char), allocatable, target :: planner_text
    if (present(planner)) then
      planner_text = c_text(planner)
      options%planner = c_loc(planner_text)
    end if
    if (present(memory_limit)) options%memory_limit = memory_limit
    call finish(c_plan_create(source%handle, target%handle, c_text(element), c_loc(options), plan%handle), ierror)
  end subroutine

  ! Replays the plan box by box.
  subroutine retile_plan_verify(plan, ierror)
    type(retile_plan), intent(in) :: plan
    integer, optional, intent(out) :: ierror
    call finish(c_plan_verify(plan%handle), ierror)
  end subroutine

  function retile_plan_cost(plan) result(cost)
    type(retile_plan), intent(in) :: plan
    integer(c_int64_t) :: cost
    cost = c_plan_cost(plan%handle)
  end function

  ! No plan costs less; the plan is proved optimal where this is its cost.
  function retile_plan_lower_bound(plan) result(bound)
    type(retile_plan), intent(in) :: plan
    integer(c_int64_t) :: bound
    bound = c_plan_lower_bound(plan%handle)
  end function

  function retile_plan_text(plan) result(text)
    type(retile_plan), intent(in) :: plan
    character(:), allocatable :: text
    text = text_of(c_plan_text, plan%handle)
  end function

  subroutine retile_plan_free(plan)
    type(retile_plan), intent(inout) :: plan
    call c_plan_free(plan%handle)
    plan%handle = c_null_ptr
  end subroutine

  ! ---- The engine: the ranks of a communicator. Collective.

  subroutine retile_engine_create(engine, comm, ierror)
    type(retile_engine), intent(inout) :: engine
    type(MPI_Comm), intent(in) :: comm
    integer, optional, intent(out) :: ierror
    call finish(c_engine_mpi(int(comm%mpi_val, c_int), engine%handle), ierror)
  end subroutine

  subroutine retile_engine_free(engine)
    type(retile_engine), intent(inout) :: engine
    call c_engine_free(engine%handle)
    engine%handle = c_null_ptr
  end subroutine

  ! ---- Transfers: several arrays in one run.

  subroutine retile_transfer_create(transfer, ierror)
    type(retile_transfer), intent(inout) :: transfer
    integer, optional, intent(out) :: ierror
    call finish(c_transfer_create(transfer%handle), ierror)
  end subroutine

  subroutine retile_transfer_add(transfer, name, source_layout, target_layout, element, engine, source, target, ierror)
    type(retile_transfer), intent(in) :: transfer
    character(*), intent(in) :: name, element
    type(retile_layout), intent(in) :: source_layout, target_layout
    type(retile_engine), intent(in) :: engine
    type(*), dimension(..), intent(in), asynchronous :: source
    type(*), dimension(..), asynchronous :: target
    integer, optional, intent(out) :: ierror
    call finish(c_transfer_add(transfer%handle, c_text(name), source_layout%handle, target_layout%handle, c_text(element), &
                               engine%handle, source, target), ierror)
  end subroutine

  subroutine retile_transfer_free(transfer)
    type(retile_transfer), intent(inout) :: transfer
    call c_transfer_free(transfer%handle)
    transfer%handle = c_null_ptr
  end subroutine

  ! ---- Runs. All calls but retile_run_test are collective.

  subroutine run_of_plan(run, plan, engine, source, target, ierror)
    type(retile_run), intent(inout) :: run
    type(retile_plan), intent(in) :: plan
    type(retile_engine), intent(in) :: engine
    type(*), dimension(..), intent(in), asynchronous :: source
    type(*), dimension(..), asynchronous :: target
    integer, optional, intent(out) :: ierror
    call finish(c_run_create(plan%handle, engine%handle, source, target, run%handle), ierror)
  end subroutine

  ! max_bytes: the most that a device may hold beyond its tiles; 256 MiB unless given.
  subroutine run_of_transfer(run, transfer, engine, max_bytes, ierror)
    type(retile_run), intent(inout) :: run
    type(retile_transfer), intent(in) :: transfer
    type(retile_engine), intent(in) :: engine
    integer(c_int64_t), optional, intent(in) :: max_bytes
    integer, optional, intent(out) :: ierror
    integer(c_int64_t) :: cap
    cap = 0
    if (present(max_bytes)) cap = max_bytes
    call finish(c_transfer_run(transfer%handle, engine%handle, cap, run%handle), ierror)
  end subroutine

  subroutine execute_bound(run, ierror)
    type(retile_run), intent(in) :: run
    integer, optional, intent(out) :: ierror
    call finish(c_run_execute(run%handle), ierror)
  end subroutine

  subroutine execute_others(run, source, target, ierror)
    type(retile_run), intent(in) :: run
    type(*), dimension(..), intent(in), asynchronous :: source
    type(*), dimension(..), asynchronous :: target
    integer, optional, intent(out) :: ierror
    integer(c_int) :: status
    status = c_run_bind(run%handle, source, target)
    if (status == retile_ok) status = c_run_execute(run%handle)
    call finish(status, ierror)
  end subroutine

  ! In the background: until retile_run_wait, or retile_run_test says that it is done, the arrays may not be touched; declare them
  ! asynchronous.
  subroutine start_bound(run, ierror)
    type(retile_run), intent(in) :: run
    integer, optional, intent(out) :: ierror
    call finish(c_run_start(run%handle), ierror)
  end subroutine

  subroutine start_others(run, source, target, ierror)
    type(retile_run), intent(in) :: run
    type(*), dimension(..), intent(in), asynchronous :: source
    type(*), dimension(..), asynchronous :: target
    integer, optional, intent(out) :: ierror
    integer(c_int) :: status
    status = c_run_bind(run%handle, source, target)
    if (status == retile_ok) status = c_run_start(run%handle)
    call finish(status, ierror)
  end subroutine

  subroutine retile_run_test(run, done, ierror)
    type(retile_run), intent(in) :: run
    logical, intent(out) :: done
    integer, optional, intent(out) :: ierror
    integer(c_int) :: flag, status
    flag = 0
    status = c_run_test(run%handle, flag)
    done = flag /= 0
    call finish(status, ierror)
  end subroutine

  subroutine retile_run_wait(run, ierror)
    type(retile_run), intent(in) :: run
    integer, optional, intent(out) :: ierror
    call finish(c_run_wait(run%handle), ierror)
  end subroutine

  subroutine retile_run_statistics(run, statistics, ierror)
    type(retile_run), intent(in) :: run
    type(retile_statistics), intent(inout) :: statistics
    integer, optional, intent(out) :: ierror
    call finish(c_run_statistics(run%handle, statistics), ierror)
  end subroutine

  subroutine retile_run_free(run)
    type(retile_run), intent(inout) :: run
    call c_run_free(run%handle)
    run%handle = c_null_ptr
  end subroutine

end module
