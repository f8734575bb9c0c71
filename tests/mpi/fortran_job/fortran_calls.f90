! What the calls of the Fortran module do, on 4 ranks.
program calls
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int64_t, c_null_ptr, c_ptr
  use mpi_f08
  use retile
  use expectations
  implicit none
  type(retile_mesh) :: line
  type(retile_layout) :: rows, columns, whole
  type(retile_plan) :: transposing
  type(retile_engine) :: ranks
  integer :: rank

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call retile_mesh_create(line, [4])
  call retile_layout_create(rows, line, [8, 8], [1, 0])
  call retile_layout_create(columns, line, [8, 8], [0, 1])
  call retile_layout_create(whole, line, [8, 8], [0, 0])
  call retile_plan_create(transposing, rows, columns, "f64")
  call retile_engine_create(ranks, MPI_COMM_WORLD)

  call texts()
  call shapes()
  call plans()
  call options()
  call runs()
  call memory_of_the_engine()
  call transfers()
  call block_cyclic()
  call periodic()
  call orders()
  call sums()
  call boxes()
  call several_devices()
  call threads()

  call retile_engine_free(ranks)
  call MPI_Finalize()

contains

  pure elemental real(8) function element(i, j)
    integer, intent(in) :: i, j
    element = 100 * i + j
  end function

  ! Elements first_i and on, first_j and on.
  pure function block_of(first_i, count_i, first_j, count_j) result(values)
    integer, intent(in) :: first_i, count_i, first_j, count_j
    real(8) :: values(count_i, count_j)
    integer :: i, j
    forall (i = 1:count_i, j = 1:count_j) values(i, j) = element(first_i + i - 1, first_j + j - 1)
  end function

  subroutine expect_message(ierror, status, words)
    integer, intent(in) :: ierror, status
    character(*), intent(in) :: words
    call expect(ierror == status, "refused with the status of: " // words)
    call expect(index(retile_error_message(), words) > 0, words // ", but " // retile_error_message())
  end subroutine

  subroutine texts()
    type(retile_mesh) :: mesh
    type(retile_layout) :: layout
    integer :: ierror
    call expect(verify(retile_version(), "0123456789.") == 0 .and. len(retile_version()) >= 5, "a version")
    call retile_mesh_parse(mesh, "row=2,column=2")
    call expect(retile_mesh_devices(mesh) == 4, "4 devices")
    call retile_layout_parse(layout, mesh, "[4{row}8, 3{column}6]")
    call expect(retile_layout_text(layout) == "[4{row}8, 3{column}6]", retile_layout_text(layout))
    call expect(retile_layout_rank(layout) == 2 .and. retile_layout_devices(layout) == 4, "2 dimensions on 4 devices")
    call retile_layout_parse(layout, mesh, "[4{r}8]", ierror)
    call expect_message(ierror, retile_input_error, "layout:1:4: error: unknown axis r")
    call retile_layout_free(layout)
    call retile_mesh_free(mesh)
  end subroutine

  subroutine shapes()
    type(retile_layout) :: cyclic
    integer(c_int64_t) :: elements
    integer, allocatable :: shape(:)
    integer :: first(2), last(2), more(3), ierror
    call retile_layout_tile(rows, 3, first, last)
    call expect(all(first == [5, 1]) .and. all(last == [6, 8]), "the tile of device 3")
    call retile_layout_tile(rows, 3, more, last, ierror)
    call expect_message(ierror, retile_input_error, "the arrays for the bounds of a tile have 3 and 2 elements, but the " // &
                        "layout has 2 dimensions")
    call retile_layout_tile(rows, 3, first, last(:1), ierror)
    call expect_message(ierror, retile_input_error, "have 2 and 1 elements")
    call retile_layout_local_shape(rows, 3, shape)
    call expect(all(shape == [2, 8]), "its shape")
    call retile_layout_size(rows, 3, elements)
    call expect(elements == 16, "its elements")
    call retile_layout_parse(cyclic, line, "[10 cyclic 2{a0}, 3]")
    call retile_layout_local_shape(cyclic, 1, shape)
    call expect(all(shape == [4, 3]), "two blocks of the first device")
    call retile_layout_tile(cyclic, 1, first, last, ierror)
    call expect_message(ierror, retile_input_error, "device 0 has several boxes")
    call retile_layout_local_shape(cyclic, 5, shape, ierror)
    call expect_message(ierror, retile_input_error, "there is no device 4")
    call retile_layout_free(cyclic)
  end subroutine

  subroutine plans()
    type(retile_plan) :: plan, again
    character(:), allocatable :: json
    integer :: ierror, at
    call expect(retile_plan_cost(transposing) == 16, "the paper's cost")
    call expect(retile_plan_lower_bound(transposing) == 16, "its lower bound")
    call expect(retile_plan_devices(transposing) == 4, "the plan's devices")
    call expect(index(retile_plan_text(transposing), "alltoall(0 -> 1; 4)") > 0, retile_plan_text(transposing))
    call retile_plan_verify(transposing)
    call retile_plan_create(plan, rows, columns, "f64", planner="direct", cost="volume")
    call expect(retile_plan_cost(plan) == 12, "elements that a device receives")
    call retile_plan_create(again, rows, columns, "f64", cost="time", ierror=ierror)
    call expect_message(ierror, retile_input_error, "unknown cost model 'time'")
    call retile_plan_create(again, rows, columns, "f64", memory_limit=8_c_int64_t, ierror=ierror)
    call expect_message(ierror, retile_input_error, "the smallest limit that works is ")
    json = retile_plan_json(transposing)
    call retile_plan_parse(again, json, "f64")
    call retile_plan_verify(again)
    call expect(retile_plan_json(again) == json, "a plan is read back")
    at = index(json, '"total":16')
    call expect(at > 0, json)
    json(at + 8:at + 9) = "15"
    call retile_plan_free(again)
    call retile_plan_parse(again, json, "f64")
    call retile_plan_verify(again, ierror)
    call expect(ierror == retile_run_error, "a wrong cost is found")
    call retile_plan_free(again)
    call retile_plan_free(plan)
  end subroutine

  subroutine options()
    type(retile_engine) :: engine
    real(8) :: b(8, 2)
    integer, allocatable :: devices(:)
    integer :: ierror
    call retile_engine_devices(ranks, 4, devices)
    call expect(size(devices) == 1 .and. devices(1) == rank + 1, "a device for each rank")
    call retile_engine_create(engine, MPI_COMM_WORLD, retile_mpi_options(transport="messages", device_map=[4, 3, 2, 1]))
    call retile_engine_devices(engine, 4, devices)
    call expect(devices(1) == 4 - rank, "the other way round")
    call run_between(transposing, engine, block_of(7 - 2 * rank, 2, 1, 8), b)
    call expect(all(b == block_of(1, 8, 7 - 2 * rank, 2)), "moved by messages between other devices")
    call retile_engine_free(engine)
    call retile_engine_create(engine, MPI_COMM_WORLD, retile_mpi_options(transport="pigeons"), ierror)
    call expect_message(ierror, retile_input_error, "unknown transport 'pigeons'")
  end subroutine

  subroutine runs()
    type(retile_run) :: run
    type(retile_statistics) :: statistics
    real(8), asynchronous :: a(2, 8), b(8, 2), c(2, 8), d(8, 2)
    integer(c_int64_t) :: source, target
    logical :: done
    a = block_of(2 * rank + 1, 2, 1, 8)
    c = -a
    call retile_run_create(run, transposing, ranks, a, b)
    call expect(retile_run_arrays(run) == 1 .and. retile_run_devices(run) == 1, "an array on a device")
    call retile_run_bytes(run, 1, 1, source, target)
    call expect(source == 128 .and. target == 128, "bytes of both arrays")
    call retile_run_execute(run)
    call expect(all(b == block_of(1, 8, 2 * rank + 1, 2)), "the arrays of the run")
    call retile_run_execute(run, c, d)
    call expect(all(d == -b), "other arrays")
    b = 0
    call retile_run_execute(run)
    call expect(all(b == 0), "the run stays with the other arrays")
    call retile_run_start(run, a, b)
    done = .false.
    do while (.not. done)
      call retile_run_test(run, done)
    end do
    call expect(all(b == -d), "in the background")
    call retile_run_statistics(run, statistics)
    call expect(statistics%received_max == 96, "12 of 16 elements come from other ranks")
    call retile_run_free(run)
  end subroutine

  subroutine memory_of_the_engine()
    type(retile_run) :: run
    type(c_ptr) :: memory, gone
    real(8), pointer :: a(:, :)
    real(8) :: b(8, 2)
    integer :: ierror
    memory = c_null_ptr
    call retile_engine_allocate(ranks, 128_c_int64_t, memory)
    call c_f_pointer(memory, a, [2, 8])
    a = block_of(2 * rank + 1, 2, 1, 8)
    call retile_run_create(run, transposing, ranks, a, b)
    call retile_run_execute(run)
    call expect(all(b == block_of(1, 8, 2 * rank + 1, 2)), "out of memory of the engine")
    call retile_run_free(run)
    gone = memory
    call retile_engine_release(ranks, memory)
    call retile_engine_release(ranks, gone, ierror)
    call expect_message(ierror, retile_input_error, "this memory was not allocated by the engine")
  end subroutine

  subroutine transfers()
    type(retile_transfer) :: fields
    type(retile_run) :: run
    real(8) :: a(2, 8), b(8, 2)
    real(4), target :: padded(4, 8)
    real(4) :: gathered(8, 8)
    integer :: ierror
    a = block_of(2 * rank + 1, 2, 1, 8)
    padded = -1
    padded(2:3, :) = real(a, 4)
    call retile_transfer_create(fields)
    call retile_transfer_add(fields, "a", rows, columns, "f64", ranks, a, b)
    call retile_transfer_add(fields, "c", rows, whole, "f32", ranks, padded(2:3, :), gathered)
    call retile_transfer_add(fields, "d", rows, whole, "f32", ranks, padded, gathered, ierror)
    call expect_message(ierror, retile_input_error, "the source is 4 x 8, but this rank's tile is 2 x 8")
    call retile_run_create(run, fields, ranks, max_bytes=65536_c_int64_t)
    call expect(retile_run_arrays(run) == 2, "two arrays")
    call retile_transfer_free(fields)
    call retile_run_execute(run)
    call expect(all(b == block_of(1, 8, 2 * rank + 1, 2)), "the first array")
    call expect(all(gathered == real(block_of(1, 8, 1, 8), 4)), "the second array")
    call retile_run_free(run)
  end subroutine

  ! A process's part of a matrix of ScaLAPACK, with three rows of padding that are -1; process (0, 0) is that of rank 0.
  function part_of(layout, desc, process, processes) result(part)
    type(retile_layout), intent(in) :: layout
    integer, intent(in) :: desc(9), process(2), processes(2)
    real(8), allocatable :: part(:, :)
    integer, allocatable :: shape(:)
    integer :: i, j
    call retile_layout_local_shape(layout, rank + 1, shape)
    allocate (part(shape(1) + 3, shape(2)))
    part = -1
    forall (i = 1:shape(1), j = 1:shape(2)) part(i, j) = element( &
      whole_index(i, desc(5), modulo(process(1) - desc(7), processes(1)), processes(1)), &
      whole_index(j, desc(6), modulo(process(2) - desc(8), processes(2)), processes(2)))
  end function

  ! The index in the matrix of a process's own index: `turn` is how many processes come before it in a round of blocks.
  pure integer function whole_index(own, block_size, turn, processes)
    integer, intent(in) :: own, block_size, turn, processes
    whole_index = ((own - 1) / block_size * processes + turn) * block_size + mod(own - 1, block_size) + 1
  end function

  subroutine block_cyclic()
    integer, parameter :: from(9) = [1, 0, 10, 7, 3, 2, 0, 0, 99], to(9) = [1, 0, 10, 7, 4, 1, 0, 2, 99]
    type(retile_layout) :: source, target
    type(retile_plan) :: plan
    type(retile_run) :: run
    real(8), allocatable :: a(:, :), b(:, :), expected(:, :)
    integer :: ierror, m
    call retile_layout_from_descriptor(source, from, 2, 2, "R")
    call retile_layout_from_descriptor(target, to, 1, 4, "R")
    call expect(retile_layout_text(target) == "[10{row}10, 7 cyclic 1{column} from 2]", retile_layout_text(target))
    call retile_plan_create(plan, source, target, "f64")
    a = part_of(source, from, [rank / 2, mod(rank, 2)], [2, 2])
    expected = part_of(target, to, [0, rank], [1, 4])
    allocate (b, mold=expected)
    b = -1
    m = size(a, 1) - 3
    call retile_run_create(run, plan, ranks, a(:m, :), b(:size(b, 1) - 3, :))
    call retile_run_execute(run)
    call expect(all(b == expected), "a block-cyclic matrix with a leading dimension")
    call retile_run_free(run)
    call retile_run_create(run, plan, ranks, a, b, ierror)
    call expect(ierror == retile_input_error, "padding is no part of the matrix")
    call retile_layout_from_descriptor(target, [2, to(2:)], 1, 4, "R", ierror)
    call expect_message(ierror, retile_input_error, "DTYPE_ of a matrix's descriptor is 2")
    call retile_layout_from_descriptor(target, to, 1, 4, "X", ierror)
    call expect_message(ierror, retile_input_error, "unknown order of a grid 'X'")
  end subroutine

  subroutine periodic()
    type(retile_layout) :: target
    type(retile_plan) :: plan
    real(8) :: b(0:9, 0:3), expected(8, 0:3)
    integer :: j
    call retile_layout_parse(target, line, "[8, 2{a0}8 halo 1 wrap]")
    call retile_plan_create(plan, rows, target, "f64")
    b = -1
    do j = 0, 3
      expected(:, j) = reshape(block_of(1, 8, modulo(2 * rank + j - 1, 8) + 1, 1), [8])
    end do
    call run_between(plan, ranks, block_of(2 * rank + 1, 2, 1, 8), b(1:8, :))
    call expect(all(b(1:8, :) == expected), "ghost zones that wrap")
    call expect(all(b(0, :) == -1) .and. all(b(9, :) == -1), "nothing beside them")
  end subroutine

  subroutine run_between(plan, engine, a, b)
    type(retile_plan), intent(in) :: plan
    type(retile_engine), intent(in) :: engine
    real(8), intent(in), asynchronous :: a(:, :)
    real(8), intent(inout), asynchronous :: b(:, :)
    type(retile_run) :: run
    call retile_run_create(run, plan, engine, a, b)
    call retile_run_execute(run)
    call retile_run_free(run)
  end subroutine

  ! An order in memory is that of tiles which are packed: arrays are moved as they lie.
  subroutine orders()
    type(retile_layout) :: target
    type(retile_plan) :: plan
    integer, allocatable :: shape(:)
    real(8) :: b(8, 2)
    call retile_layout_parse(target, line, "[8, 2{a0}8] order [1, 0]")
    call retile_layout_local_shape(target, 1, shape)
    call expect(all(shape == [8, 2]), "dimensions as they are declared")
    call retile_plan_create(plan, rows, target, "f64")
    call run_between(plan, ranks, block_of(2 * rank + 1, 2, 1, 8), b)
    call expect(all(b == block_of(1, 8, 2 * rank + 1, 2)), "another order in memory")
  end subroutine

  subroutine sums()
    type(retile_layout) :: parts
    type(retile_plan) :: plan
    real(8) :: b(8, 8)
    call retile_layout_parse(parts, line, "[8, 8] sum {a0}")
    call retile_plan_create(plan, parts, whole, "f64")
    call run_between(plan, ranks, rank * block_of(1, 8, 1, 8), b)
    call expect(all(b == 6 * block_of(1, 8, 1, 8)), "a sum over the ranks")
  end subroutine

  ! Device 1 has two boxes, which lie one after the other, and device 4 has none.
  subroutine boxes()
    type(retile_layout) :: source, pairs
    type(retile_plan) :: plan
    type(retile_run) :: run
    real(8), allocatable :: a(:)
    real(8) :: b(2)
    integer, allocatable :: shape(:)
    call retile_layout_boxes(source, [8], [2, 1, 1, 0], reshape([1, 2, 7, 8, 3, 4, 5, 6], [2, 1, 4]))
    call expect(retile_layout_text(source) == "[8] boxes {[0:2] [6:8]; [2:4]; [4:6]; }", retile_layout_text(source))
    call retile_layout_local_shape(source, rank + 1, shape)
    call expect(shape(1) == merge(4, merge(2, 0, rank < 3), rank == 0), "elements of all boxes")
    allocate (a(shape(1)))
    if (rank == 0) a = [1, 2, 7, 8]
    if (rank == 1) a = [3, 4]
    if (rank == 2) a = [5, 6]
    call retile_layout_create(pairs, line, [8], [1])
    call retile_plan_create(plan, source, pairs, "f64")
    call retile_run_create(run, plan, ranks, a, b)
    call retile_run_execute(run)
    call expect(all(b == [2 * rank + 1, 2 * rank + 2]), "listed boxes")
    call retile_run_free(run)
  end subroutine

  ! Eight devices, two on each rank.
  subroutine several_devices()
    type(retile_mesh) :: mesh
    type(retile_layout) :: by_row, by_column
    type(retile_plan) :: plan
    type(retile_tiles) :: tiles
    type(retile_run) :: run
    real(8) :: a(2, 8), b(8, 2)
    integer :: ierror
    call retile_mesh_create(mesh, [8])
    call retile_layout_create(by_row, mesh, [8, 8], [1, 0])
    call retile_layout_create(by_column, mesh, [8, 8], [0, 1])
    call retile_plan_create(plan, by_row, by_column, "f64")
    a = block_of(2 * rank + 1, 2, 1, 8)
    call retile_tiles_add(tiles, a(1:1, :), b(:, 1:1))
    call retile_run_of_tiles(run, plan, ranks, tiles, ierror)
    call expect_message(ierror, retile_input_error, "this process has 2 devices, and arrays for 1")
    call retile_tiles_add(tiles, a(2:2, :), b(:, 2:2))
    call retile_run_of_tiles(run, plan, ranks, tiles)
    call retile_tiles_free(tiles)
    call expect(retile_run_devices(run) == 2, "two devices")
    call retile_run_execute(run)
    call expect(all(b == block_of(1, 8, 2 * rank + 1, 2)), "two devices on each rank")
    call retile_run_free(run)
    call retile_tiles_add(tiles, a(1:1, :), b(:, 1:1))
    call retile_tiles_add(tiles, a, b(:, 2:2))
    call retile_run_of_tiles(run, plan, ranks, tiles, ierror)
    call expect_message(ierror, retile_input_error, "the source is 2 x 8, but tile 2 of this rank is 1 x 8")
    call retile_tiles_free(tiles)
  end subroutine

  ! All devices in each process: no rank needs another.
  subroutine threads()
    type(retile_engine) :: engine
    type(retile_tiles) :: tiles
    type(retile_run) :: run
    real(8) :: a(8, 8), b(8, 8)
    integer, allocatable :: devices(:)
    integer :: i
    call retile_engine_threads(engine, threads=2)
    call retile_engine_devices(engine, 4, devices)
    call expect(all(devices == [1, 2, 3, 4]), "all devices")
    a = block_of(1, 8, 1, 8)
    do i = 1, 4
      call retile_tiles_add(tiles, a(2 * i - 1:2 * i, :), b(:, 2 * i - 1:2 * i))
    end do
    call retile_run_of_tiles(run, transposing, engine, tiles)
    call retile_run_execute(run)
    call expect(all(b == a), "on threads")
    call retile_run_free(run)
    call retile_tiles_free(tiles)
    call retile_engine_free(engine)
  end subroutine

end program
