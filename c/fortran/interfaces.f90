! The functions and structs of retile/c.h and c/src/fortran.cpp that the module retile calls. Programs use retile.f90.
module retile_interfaces
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_int64_t, c_null_ptr, c_ptr, c_size_t
  implicit none
  public

  integer, parameter :: retile_ok = 0, retile_input_error = 1, retile_run_error = 3, retile_internal_error = 70

  ! The last execution, over all ranks: bytes of the device that received the most, and that had the most beyond its tiles.
  type, bind(c) :: retile_statistics
    integer(c_int64_t) :: received_max, staging_max
    real(c_double) :: seconds
  end type

  type, bind(c) :: plan_options
    type(c_ptr) :: planner = c_null_ptr, cost = c_null_ptr
    integer(c_int64_t) :: memory_limit = 0
  end type

  type, bind(c) :: mpi_options
    type(c_ptr) :: transport = c_null_ptr
    integer(c_int64_t) :: staging_bytes = 0
    type(c_ptr) :: device_map = c_null_ptr
    integer(c_int64_t) :: device_map_size = 0
  end type

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
    function c_mesh_devices(mesh) bind(c, name="retile_mesh_devices") result(devices)
      import; type(c_ptr), value :: mesh; integer(c_int64_t) :: devices
    end function
    function c_layout_boxes(rank, shape, devices, box_counts, bounds, layout) bind(c, name="retile_layout_boxes") result(status)
      import; integer(c_int), value :: rank; integer(c_int64_t), value :: devices
      integer(c_int64_t), intent(in) :: shape(*), box_counts(*), bounds(*)
      type(c_ptr), intent(inout) :: layout; integer(c_int) :: status
    end function
    function c_layout_from_descriptor(descriptor, rows, columns, order, layout) bind(c, name="retile_layout_from_descriptor") &
      result(status)
      import; integer(c_int), intent(in) :: descriptor(9); integer(c_int), value :: rows, columns
      character(kind=c_char), intent(in) :: order(*); type(c_ptr), intent(inout) :: layout; integer(c_int) :: status
    end function
    function c_layout_devices(layout) bind(c, name="retile_layout_devices") result(devices)
      import; type(c_ptr), value :: layout; integer(c_int64_t) :: devices
    end function
    function c_layout_local_shape(layout, device, dimensions, shape) &
      bind(c, name="retile_fortran_layout_local_shape") result(status)
      import; type(c_ptr), value :: layout; integer(c_int64_t), value :: device
      integer(c_int), intent(inout) :: dimensions; integer(c_int64_t), intent(inout) :: shape(*); integer(c_int) :: status
    end function
    function c_layout_size(layout, device, elements) bind(c, name="retile_layout_size") result(status)
      import; type(c_ptr), value :: layout; integer(c_int64_t), value :: device
      integer(c_int64_t), intent(inout) :: elements; integer(c_int) :: status
    end function
    function c_layout_rank(layout) bind(c, name="retile_layout_rank") result(rank)
      import; type(c_ptr), value :: layout; integer(c_int) :: rank
    end function
    function c_layout_tile(layout, device, first_size, end_size, first, end) &
      bind(c, name="retile_fortran_layout_tile") result(status)
      import; type(c_ptr), value :: layout; integer(c_int64_t), value :: device; integer(c_int), value :: first_size, end_size
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
    function c_plan_parse(json, element, plan) bind(c, name="retile_plan_parse") result(status)
      import; character(kind=c_char), intent(in) :: json(*), element(*)
      type(c_ptr), intent(inout) :: plan; integer(c_int) :: status
    end function
    function c_plan_devices(plan) bind(c, name="retile_plan_devices") result(devices)
      import; type(c_ptr), value :: plan; integer(c_int64_t) :: devices
    end function
    function c_plan_json(plan, text, capacity, length) bind(c, name="retile_plan_json") result(status)
      import; type(c_ptr), value :: plan, text; integer(c_size_t), value :: capacity
      integer(c_size_t), intent(inout) :: length; integer(c_int) :: status
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
    function c_engine_mpi(comm, options, engine) bind(c, name="retile_fortran_engine_mpi") result(status)
      import; integer(c_int), value :: comm; type(mpi_options), intent(in) :: options
      type(c_ptr), intent(inout) :: engine; integer(c_int) :: status
    end function
    function c_engine_threads(threads, engine) bind(c, name="retile_engine_threads") result(status)
      import; integer(c_int), value :: threads; type(c_ptr), intent(inout) :: engine; integer(c_int) :: status
    end function
    function c_engine_devices(engine, count, devices, capacity, number) bind(c, name="retile_engine_devices") result(status)
      import; type(c_ptr), value :: engine; integer(c_int64_t), value :: count; integer(c_size_t), value :: capacity
      integer(c_int64_t), intent(inout) :: devices(*); integer(c_size_t), intent(inout) :: number; integer(c_int) :: status
    end function
    function c_engine_allocate(engine, bytes, memory) bind(c, name="retile_engine_allocate") result(status)
      import; type(c_ptr), value :: engine; integer(c_size_t), value :: bytes
      type(c_ptr), intent(inout) :: memory; integer(c_int) :: status
    end function
    function c_engine_release(engine, memory) bind(c, name="retile_engine_release") result(status)
      import; type(c_ptr), value :: engine, memory; integer(c_int) :: status
    end function
    subroutine c_engine_free(engine) bind(c, name="retile_engine_free")
      import; type(c_ptr), value :: engine
    end subroutine
    function c_tiles_add(tiles, source, target) bind(c, name="retile_fortran_tiles_add") result(status)
      import; type(c_ptr), intent(inout) :: tiles
      type(*), dimension(..), intent(in), asynchronous :: source
      type(*), dimension(..), asynchronous :: target
      integer(c_int) :: status
    end function
    subroutine c_tiles_free(tiles) bind(c, name="retile_fortran_tiles_free")
      import; type(c_ptr), value :: tiles
    end subroutine
    function c_transfer_create(transfer) bind(c, name="retile_transfer_create") result(status)
      import; type(c_ptr), intent(inout) :: transfer; integer(c_int) :: status
    end function
    function c_transfer_add(transfer, name, source_layout, target_layout, element, engine, tiles) &
      bind(c, name="retile_fortran_transfer_add") result(status)
      import; type(c_ptr), value :: transfer, source_layout, target_layout, engine, tiles
      character(kind=c_char), intent(in) :: name(*), element(*); integer(c_int) :: status
    end function
    function c_transfer_run(transfer, engine, max_bytes, run) bind(c, name="retile_transfer_run") result(status)
      import; type(c_ptr), value :: transfer, engine; integer(c_int64_t), value :: max_bytes
      type(c_ptr), intent(inout) :: run; integer(c_int) :: status
    end function
    subroutine c_transfer_free(transfer) bind(c, name="retile_transfer_free")
      import; type(c_ptr), value :: transfer
    end subroutine
    function c_run_create(plan, engine, tiles, run) bind(c, name="retile_fortran_run_create") result(status)
      import; type(c_ptr), value :: plan, engine, tiles; type(c_ptr), intent(inout) :: run; integer(c_int) :: status
    end function
    function c_run_bind(run, tiles) bind(c, name="retile_fortran_run_bind") result(status)
      import; type(c_ptr), value :: run, tiles; integer(c_int) :: status
    end function
    function c_run_arrays(run) bind(c, name="retile_run_arrays") result(arrays)
      import; type(c_ptr), value :: run; integer(c_size_t) :: arrays
    end function
    function c_run_devices(run) bind(c, name="retile_run_devices") result(devices)
      import; type(c_ptr), value :: run; integer(c_size_t) :: devices
    end function
    function c_run_bytes(run, array, device, source, target) bind(c, name="retile_run_bytes") result(status)
      import; type(c_ptr), value :: run; integer(c_size_t), value :: array, device
      integer(c_int64_t), intent(inout) :: source, target; integer(c_int) :: status
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

end module
