! retile for Fortran 2008 with assumed-type arrays (as mpi_f08 has them): over retile/c.h, for MPI programs.
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
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_null_char, c_null_ptr, c_ptr, c_size_t, c_f_pointer, c_loc
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08, only: MPI_Abort, MPI_Comm, MPI_COMM_WORLD
  use retile_interfaces
  implicit none
  private

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
  type, public :: retile_tiles
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

  ! Options of the engine: those that are not given are as without options. All ranks give the same.
  type, public :: retile_mpi_options
    character(:), allocatable :: transport   ! "auto", "collectives", "messages"
    integer(c_int64_t) :: staging_bytes = 0  ! the most bytes that a rank has besides tiles; 0: 8 MiB
    integer, allocatable :: device_map(:)    ! devices rank by rank
  end type

  public :: retile_ok, retile_input_error, retile_run_error, retile_internal_error, retile_statistics
  public :: retile_error_message, retile_version
  public :: retile_mesh_create, retile_mesh_parse, retile_mesh_devices, retile_mesh_free
  public :: retile_layout_create, retile_layout_parse, retile_layout_boxes, retile_layout_from_descriptor
  public :: retile_layout_rank, retile_layout_devices, retile_layout_tile, retile_layout_local_shape, retile_layout_size
  public :: retile_layout_text, retile_layout_free
  public :: retile_plan_create, retile_plan_parse, retile_plan_verify, retile_plan_devices, retile_plan_cost
  public :: retile_plan_lower_bound, retile_plan_text, retile_plan_json, retile_plan_free
  public :: retile_engine_create, retile_engine_threads, retile_engine_devices, retile_engine_allocate, retile_engine_release
  public :: retile_engine_free
  public :: retile_tiles_add, retile_tiles_free
  public :: retile_transfer_create, retile_transfer_add, retile_transfer_free
  public :: retile_run_create, retile_run_of_tiles, retile_run_arrays, retile_run_devices, retile_run_bytes
  public :: retile_run_execute, retile_run_start, retile_run_test, retile_run_wait, retile_run_statistics
  public :: retile_run_free

  interface retile_engine_create
    module procedure engine_of_ranks, engine_with_options
  end interface
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

  ! What a function of c.h that gives text writes about a handle.
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

  function retile_mesh_devices(mesh) result(devices)
    type(retile_mesh), intent(in) :: mesh
    integer :: devices
    devices = int(c_mesh_devices(mesh%handle))
  end function

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

  ! Any boxes: device i has counts(i) of them, device by device. Box k has the elements bounds(1, i, k) to bounds(2, i, k) of
  ! dimension i. Several boxes of a device lie in a one-dimensional array, one after the other, and each of them row-major:
  ! its last dimension fastest.
  subroutine retile_layout_boxes(layout, shape, counts, bounds, ierror)
    type(retile_layout), intent(inout) :: layout
    integer, intent(in) :: shape(:), counts(:), bounds(2, size(shape), sum(counts))
    integer, optional, intent(out) :: ierror
    integer(c_int64_t) :: from_zero(2, size(shape), sum(counts))
    from_zero(1, :, :) = bounds(1, :, :) - 1
    from_zero(2, :, :) = bounds(2, :, :)
    call finish(c_layout_boxes(int(size(shape), c_int), int(shape, c_int64_t), int(size(counts), c_int64_t), &
                               int(counts, c_int64_t), from_zero, layout%handle), ierror)
  end subroutine

  ! A dense matrix of ScaLAPACK by its descriptor, on a grid of rows x columns processes. Ranks are numbered along the grid's rows
  ! ("R") or columns ("C"), as the order of BLACS_GRIDINIT says.
  subroutine retile_layout_from_descriptor(layout, descriptor, rows, columns, order, ierror)
    type(retile_layout), intent(inout) :: layout
    integer, intent(in) :: descriptor(9), rows, columns
    character(*), intent(in) :: order
    integer, optional, intent(out) :: ierror
    call finish(c_layout_from_descriptor(int(descriptor, c_int), int(rows, c_int), int(columns, c_int), c_text(order), &
                                         layout%handle), ierror)
  end subroutine

  function retile_layout_rank(layout) result(rank)
    type(retile_layout), intent(in) :: layout
    integer :: rank
    rank = int(c_layout_rank(layout%handle))
  end function

  function retile_layout_devices(layout) result(devices)
    type(retile_layout), intent(in) :: layout
    integer :: devices
    devices = int(c_layout_devices(layout%handle))
  end function

  ! The first and the last element, in each dimension, of what a device (rank + 1) holds; the last is before the first where it
  ! holds nothing.
  subroutine retile_layout_tile(layout, device, first, last, ierror)
    type(retile_layout), intent(in) :: layout
    integer, intent(in) :: device
    integer, intent(out) :: first(:), last(:)
    integer, optional, intent(out) :: ierror
    integer(c_int64_t) :: lower(size(first)), upper(size(last))
    integer(c_int) :: status
    lower = 0
    upper = 0
    status = c_layout_tile(layout%handle, int(device - 1, c_int64_t), int(size(first), c_int), int(size(last), c_int), &
                           lower, upper)
    first = int(lower) + 1
    last = int(upper)
    call finish(status, ierror)
  end subroutine

  ! The shape of a device's own array: also where it holds several boxes, as of a block-cyclic matrix or with ghost zones that wrap.
  ! Several listed boxes have one dimension.
  subroutine retile_layout_local_shape(layout, device, shape, ierror)
    type(retile_layout), intent(in) :: layout
    integer, intent(in) :: device
    integer, allocatable, intent(out) :: shape(:)
    integer, optional, intent(out) :: ierror
    integer(c_int64_t), allocatable :: sizes(:)
    integer(c_int) :: dimensions, status
    dimensions = 0
    allocate (sizes(c_layout_rank(layout%handle)))
    status = c_layout_local_shape(layout%handle, int(device - 1, c_int64_t), dimensions, sizes)
    shape = int(sizes(:dimensions))
    call finish(status, ierror)
  end subroutine

  ! Elements that a device holds.
  subroutine retile_layout_size(layout, device, elements, ierror)
    type(retile_layout), intent(in) :: layout
    integer, intent(in) :: device
    integer(c_int64_t), intent(out) :: elements
    integer, optional, intent(out) :: ierror
    elements = 0
    call finish(c_layout_size(layout%handle, int(device - 1, c_int64_t), elements), ierror)
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

  ! planner: "auto", "wide", "paper", "direct", "lean", "gather-slice", "two-level"; memory_limit: bytes that a device may hold at
  ! once; cost: "paper", "volume".
  subroutine retile_plan_create(plan, source, target, element, planner, memory_limit, cost, ierror)
    type(retile_plan), intent(inout) :: plan
    type(retile_layout), intent(in) :: source, target
    character(*), intent(in) :: element
    character(*), optional, intent(in) :: planner, cost
    integer(c_int64_t), optional, intent(in) :: memory_limit
    integer, optional, intent(out) :: ierror
    type(plan_options), target :: options
    character(:, kind=c_char), allocatable, target :: planner_text, cost_text
    if (present(planner)) then
      planner_text = c_text(planner)
      options%planner = c_loc(planner_text)
    end if
    if (present(cost)) then
      cost_text = c_text(cost)
      options%cost = c_loc(cost_text)
    end if
    if (present(memory_limit)) options%memory_limit = memory_limit
    call finish(c_plan_create(source%handle, target%handle, c_text(element), c_loc(options), plan%handle), ierror)
  end subroutine

  ! A plan as retile_plan_json or `retile plan --json` writes it.
  subroutine retile_plan_parse(plan, json, element, ierror)
    type(retile_plan), intent(inout) :: plan
    character(*), intent(in) :: json, element
    integer, optional, intent(out) :: ierror
    call finish(c_plan_parse(c_text(json), c_text(element), plan%handle), ierror)
  end subroutine

  ! Replays the plan box by box.
  subroutine retile_plan_verify(plan, ierror)
    type(retile_plan), intent(in) :: plan
    integer, optional, intent(out) :: ierror
    call finish(c_plan_verify(plan%handle), ierror)
  end subroutine

  function retile_plan_devices(plan) result(devices)
    type(retile_plan), intent(in) :: plan
    integer :: devices
    devices = int(c_plan_devices(plan%handle))
  end function

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

  function retile_plan_json(plan) result(json)
    type(retile_plan), intent(in) :: plan
    character(:), allocatable :: json
    json = text_of(c_plan_json, plan%handle)
  end function

  subroutine retile_plan_free(plan)
    type(retile_plan), intent(inout) :: plan
    call c_plan_free(plan%handle)
    plan%handle = c_null_ptr
  end subroutine

  ! ---- Engines.

  ! The ranks of a communicator, which keeps its engine: ask for it as often as you like. Collective.
  subroutine engine_of_ranks(engine, comm, ierror)
    type(retile_engine), intent(inout) :: engine
    type(MPI_Comm), intent(in) :: comm
    integer, optional, intent(out) :: ierror
    call engine_with_options(engine, comm, retile_mpi_options(), ierror)
  end subroutine

  subroutine engine_with_options(engine, comm, options, ierror)
    type(retile_engine), intent(inout) :: engine
    type(MPI_Comm), intent(in) :: comm
    type(retile_mpi_options), intent(in) :: options
    integer, optional, intent(out) :: ierror
    type(mpi_options) :: given
    character(:, kind=c_char), allocatable, target :: transport
    integer(c_int64_t), allocatable, target :: device_map(:)
    if (allocated(options%transport)) then
      transport = c_text(options%transport)
      given%transport = c_loc(transport)
    end if
    given%staging_bytes = options%staging_bytes
    if (allocated(options%device_map)) then
      device_map = int(options%device_map - 1, c_int64_t)
      if (size(device_map) > 0) given%device_map = c_loc(device_map)
      given%device_map_size = size(device_map)
    end if
    call finish(c_engine_mpi(int(comm%mpi_val, c_int), given, engine%handle), ierror)
  end subroutine

  ! All devices in this process; threads: one for each core unless given.
  subroutine retile_engine_threads(engine, threads, ierror)
    type(retile_engine), intent(inout) :: engine
    integer, optional, intent(in) :: threads
    integer, optional, intent(out) :: ierror
    integer(c_int) :: count
    count = 0
    if (present(threads)) count = int(threads, c_int)
    call finish(c_engine_threads(count, engine%handle), ierror)
  end subroutine

  ! The devices, out of `count`, whose tiles this process has: ascending.
  subroutine retile_engine_devices(engine, count, devices, ierror)
    type(retile_engine), intent(in) :: engine
    integer, intent(in) :: count
    integer, allocatable, intent(out) :: devices(:)
    integer, optional, intent(out) :: ierror
    integer(c_int64_t) :: numbers(max(1, count))
    integer(c_size_t) :: number
    integer(c_int) :: status
    number = 0
    status = c_engine_devices(engine%handle, int(count, c_int64_t), numbers, int(max(1, count), c_size_t), number)
    devices = int(numbers(:number)) + 1
    call finish(status, ierror)
  end subroutine

  ! Memory of the kind that the engine moves fastest: c_f_pointer makes it an array. It ends with retile_engine_release or with the
  ! engine.
  subroutine retile_engine_allocate(engine, bytes, memory, ierror)
    type(retile_engine), intent(in) :: engine
    integer(c_int64_t), intent(in) :: bytes
    type(c_ptr), intent(inout) :: memory
    integer, optional, intent(out) :: ierror
    call finish(c_engine_allocate(engine%handle, int(bytes, c_size_t), memory), ierror)
  end subroutine

  subroutine retile_engine_release(engine, memory, ierror)
    type(retile_engine), intent(in) :: engine
    type(c_ptr), intent(inout) :: memory
    integer, optional, intent(out) :: ierror
    integer(c_int) :: status
    status = c_engine_release(engine%handle, memory)
    if (status == retile_ok) memory = c_null_ptr
    call finish(status, ierror)
  end subroutine

  subroutine retile_engine_free(engine)
    type(retile_engine), intent(inout) :: engine
    call c_engine_free(engine%handle)
    engine%handle = c_null_ptr
  end subroutine

  ! ---- Tiles: the source and the target array of each device of this process, in the order of retile_engine_devices. For processes
  ! with one device, retile_run_create takes both arrays.

  subroutine retile_tiles_add(tiles, source, target, ierror)
    type(retile_tiles), intent(inout) :: tiles
    type(*), dimension(..), intent(in), asynchronous :: source
    type(*), dimension(..), asynchronous :: target
    integer, optional, intent(out) :: ierror
    call finish(c_tiles_add(tiles%handle, source, target), ierror)
  end subroutine

  subroutine retile_tiles_free(tiles)
    type(retile_tiles), intent(inout) :: tiles
    call c_tiles_free(tiles%handle)
    tiles%handle = c_null_ptr
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
    type(retile_tiles) :: tiles
    integer(c_int) :: status
    status = c_tiles_add(tiles%handle, source, target)
    if (status == retile_ok) status = c_transfer_add(transfer%handle, c_text(name), source_layout%handle, target_layout%handle, &
                                                     c_text(element), engine%handle, tiles%handle)
    call retile_tiles_free(tiles)
    call finish(status, ierror)
  end subroutine

  subroutine retile_transfer_free(transfer)
    type(retile_transfer), intent(inout) :: transfer
    call c_transfer_free(transfer%handle)
    transfer%handle = c_null_ptr
  end subroutine

  ! ---- Runs. Making a run and asking for its statistics is collective. Executions are not: a rank waits for those whose data it
  ! needs. Where one rank cannot execute a run, those that wait for it fail as well.

  subroutine run_of_plan(run, plan, engine, source, target, ierror)
    type(retile_run), intent(inout) :: run
    type(retile_plan), intent(in) :: plan
    type(retile_engine), intent(in) :: engine
    type(*), dimension(..), intent(in), asynchronous :: source
    type(*), dimension(..), asynchronous :: target
    integer, optional, intent(out) :: ierror
    type(retile_tiles) :: tiles
    integer :: status
    call retile_tiles_add(tiles, source, target)
    call retile_run_of_tiles(run, plan, engine, tiles, status)
    call retile_tiles_free(tiles)
    call finish(int(status, c_int), ierror)
  end subroutine

  ! A run of a plan where processes may have several devices. The tiles may be freed; their arrays are kept.
  subroutine retile_run_of_tiles(run, plan, engine, tiles, ierror)
    type(retile_run), intent(inout) :: run
    type(retile_plan), intent(in) :: plan
    type(retile_engine), intent(in) :: engine
    type(retile_tiles), intent(in) :: tiles
    integer, optional, intent(out) :: ierror
    call finish(c_run_create(plan%handle, engine%handle, tiles%handle, run%handle), ierror)
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

  ! How many arrays a run moves.
  function retile_run_arrays(run) result(arrays)
    type(retile_run), intent(in) :: run
    integer :: arrays
    arrays = int(c_run_arrays(run%handle))
  end function

  ! How many devices this process has.
  function retile_run_devices(run) result(devices)
    type(retile_run), intent(in) :: run
    integer :: devices
    devices = int(c_run_devices(run%handle))
  end function

  ! Bytes from the first to the last element, of an array on this process's n-th device.
  subroutine retile_run_bytes(run, array, device, source, target, ierror)
    type(retile_run), intent(in) :: run
    integer, intent(in) :: array, device
    integer(c_int64_t), intent(out) :: source, target
    integer, optional, intent(out) :: ierror
    source = 0
    target = 0
    call finish(c_run_bytes(run%handle, int(array - 1, c_size_t), int(device - 1, c_size_t), source, target), ierror)
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
    status = bind_again(run, source, target)
    if (status == retile_ok) status = c_run_execute(run%handle)
    call finish(status, ierror)
  end subroutine

  function bind_again(run, source, target) result(status)
    type(retile_run), intent(in) :: run
    type(*), dimension(..), intent(in), asynchronous :: source
    type(*), dimension(..), asynchronous :: target
    type(retile_tiles) :: tiles
    integer(c_int) :: status
    status = c_tiles_add(tiles%handle, source, target)
    if (status == retile_ok) status = c_run_bind(run%handle, tiles%handle)
    call retile_tiles_free(tiles)
  end function

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
    status = bind_again(run, source, target)
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
