// What the Fortran module (c/fortran/retile.f90) needs beyond retile/c.h: arrays as Fortran describes them, so that
// slices are moved as they lie. Compiled by the compilers of one vendor, whose descriptors these are.
#include <ISO_Fortran_binding.h>

#include <algorithm>
#include <string>

#include "c/src/handles.h"
#include "retile/c_mpi.h"

namespace {

using namespace retile;

std::string product_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text.empty() ? "a scalar" : text;
}

}  // namespace

namespace retile::c {

// An array of Fortran: where it is and how it lies.
struct FortranArray {
  void* address = nullptr;
  std::int64_t element_size = 0;  // bytes
  Shape extents;
  Strides strides;  // bytes
};

}  // namespace retile::c

// The arrays of this process's devices, ascending.
struct retile_tiles {
  std::vector<retile::c::FortranArray> sources = {};
  std::vector<retile::c::FortranArray> targets = {};
};

namespace {

using c::FortranArray;

FortranArray array_of(const CFI_cdesc_t& descriptor) {
  FortranArray array{descriptor.base_addr, static_cast<std::int64_t>(descriptor.elem_len), {}, {}};
  for (int i = 0; i < descriptor.rank; ++i) {
    array.extents.push_back(descriptor.dim[i].extent);
    array.strides.push_back(descriptor.dim[i].sm);
  }
  return array;
}

// The shape of a device's own array, its dimensions as those of the whole array.
Shape own_shape(const Layout& layout, Device device) {
  const Shape in_memory = layout.local_shape(device);
  if (layout.order().size() != in_memory.size()) return in_memory;
  Shape shape(in_memory.size());
  for (std::size_t i = 0; i < shape.size(); ++i) shape[static_cast<std::size_t>(layout.order()[i])] = in_memory[i];
  return shape;
}

// One end of a movement: the layout, and what its arrays are called in messages.
struct End {
  const char* name;
  const Layout& layout;
  ElementType element;
};

// Where an array's elements lie. Throws InputError where it is not the tile of the device, which is called `tile`.
MemoryLayout memory_of(const FortranArray& array, const End& end, Device device, const std::string& tile) {
  const std::string name = std::string("the ") + end.name;
  if (array.element_size != bytes_of(end.element)) {
    throw InputError("the elements of " + name + " have " + std::to_string(array.element_size) + " bytes, but " +
                         name_of(end.element) + " has " + std::to_string(bytes_of(end.element)),
                     "");
  }
  const Shape shape = own_shape(end.layout, device);
  if (array.extents != shape) {
    throw InputError(name + " is " + product_text(array.extents) + ", but " + tile + " is " + product_text(shape),
                     "retile_layout_local_shape says what shape the array of a device has");
  }
  // Listed boxes lie one after the other, which no strides say.
  const bool is_packed_list = end.layout.listed() != nullptr && array.strides == Strides{array.element_size};
  return {0, is_packed_list ? Strides() : c::tile_strides(end.layout, array.strides)};
}

// The same for all devices of this process. Throws InputError where there is not an array for each.
std::vector<MemoryLayout> memory_of(const std::vector<FortranArray>& arrays, const End& end, const Engine& engine,
                                    std::int64_t world) {
  const std::vector<Device> devices = engine.devices(world);
  if (arrays.size() != devices.size()) {
    throw InputError("this process has " + std::to_string(devices.size()) + " devices, and arrays for " +
                         std::to_string(arrays.size()),
                     "retile_tiles_add takes the arrays of each device, retile_run_of_tiles all of them");
  }
  std::vector<MemoryLayout> memory;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string tile =
        devices.size() == 1 ? "this rank's tile" : "tile " + std::to_string(i + 1) + " of this rank";
    memory.push_back(memory_of(arrays[i], end, devices[i], tile));
  }
  return memory;
}

void bind(c::BoundArrays& bound, const retile_tiles& tiles) {
  for (const FortranArray& source : tiles.sources) bound.sources.push_back(source.address);
  for (const FortranArray& target : tiles.targets) bound.targets.push_back(target.address);
  for (const auto* arrays : {&tiles.sources, &tiles.targets}) {
    for (const FortranArray& array : *arrays) {
      bound.shapes.push_back(array.extents);
      bound.shapes.push_back(array.strides);
    }
  }
}

// Binds a run of one array to other arrays. Throws InputError where they lie in memory otherwise than the first ones:
// then the run is not executed here, which other ranks hear of.
void bind_again(retile_run& run, const retile_tiles& tiles) {
  c::BoundArrays bound;
  bind(bound, tiles);
  if (bound.shapes != run.bound.shapes) {
    const std::string why = "the arrays are not shaped, or do not lie in memory, as those that the run was made with";
    std::visit([&](auto& value) { value.refuse(why); }, run.value);
    throw InputError(why, "");
  }
  run.bound = std::move(bound);
}

}  // namespace

extern "C" {

retile_status retile_fortran_engine_mpi(MPI_Fint comm, const retile_mpi_options* options, retile_engine** engine) {
  return retile_engine_mpi_with(MPI_Comm_f2c(comm), options, engine);
}

// The dimensions of a device's own array, and its extents in the order of the layout's dimensions.
retile_status retile_fortran_layout_local_shape(const retile_layout* layout, std::int64_t device, int* dimensions,
                                                std::int64_t* shape) {
  return c::guarded([&] {
    const Shape own = own_shape(c::require_device(layout, device), device);
    *dimensions = static_cast<int>(own.size());
    std::copy(own.begin(), own.end(), shape);
  });
}

// retile_layout_tile() into arrays of these sizes. Refused where they have not one element for each dimension.
retile_status retile_fortran_layout_tile(const retile_layout* layout, std::int64_t device, int first_size, int end_size,
                                         std::int64_t* first, std::int64_t* end) {
  const retile_status status = c::guarded([&] {
    const int rank = c::require_device(layout, device).rank();
    if (first_size == rank && end_size == rank) return;
    throw InputError("the arrays for the bounds of a tile have " + std::to_string(first_size) + " and " +
                         std::to_string(end_size) + " elements, but the layout has " + std::to_string(rank) +
                         " dimensions",
                     "retile_layout_rank says how many dimensions there are");
  });
  return status == RETILE_OK ? retile_layout_tile(layout, device, first, end) : status;
}

// Adds the arrays of the next device; makes the tiles where they are null.
retile_status retile_fortran_tiles_add(retile_tiles** tiles, const CFI_cdesc_t* source, const CFI_cdesc_t* target) {
  return c::guarded([&] {
    if (*tiles == nullptr) *tiles = new retile_tiles;
    (*tiles)->sources.push_back(array_of(*source));
    (*tiles)->targets.push_back(array_of(*target));
  });
}

void retile_fortran_tiles_free(retile_tiles* tiles) { delete tiles; }

retile_status retile_fortran_run_create(const retile_plan* plan, retile_engine* engine, const retile_tiles* tiles,
                                        retile_run** run) {
  return c::guarded([&] {
    const Engine& on = *c::require(engine, "engine").value;
    RedistributeOptions options;
    options.engine = engine->value.get();
    on.processes().do_together([&] {
      const Plan& given = c::require(plan, "plan").value;
      const retile_tiles& arrays = c::require(tiles, "tiles");
      const std::int64_t world = given.device_count();
      options.sources = memory_of(arrays.sources, {"source", given.source, plan->element}, on, world);
      options.targets = memory_of(arrays.targets, {"target", given.target, plan->element}, on, world);
    });
    c::BoundArrays bound;
    bind(bound, *tiles);
    *run = new retile_run{ByteRedistribution(plan->value, bytes_of(plan->element), options), {""}, std::move(bound)};
  });
}

retile_status retile_fortran_transfer_add(retile_transfer* transfer, const char* name,
                                          const retile_layout* source_layout, const retile_layout* target_layout,
                                          const char* element, const retile_engine* engine, const retile_tiles* tiles) {
  return c::guarded([&] {
    const Layout& from = c::require(source_layout, "source_layout").value;
    const Layout& to = c::require(target_layout, "target_layout").value;
    const Engine& on = *c::require(engine, "engine").value;
    const ElementType type = c::element_of(element);
    Problem problem(name, from, to, type);
    const std::int64_t world = problem.device_count();
    c::require(transfer, "transfer")
        .arrays.push_back({name, std::move(problem), memory_of(tiles->sources, {"source", from, type}, on, world),
                           memory_of(tiles->targets, {"target", to, type}, on, world)});
    bind(transfer->bound, *tiles);
  });
}

retile_status retile_fortran_run_bind(retile_run* run, const retile_tiles* tiles) {
  return c::guarded([&] { bind_again(c::require(run, "run"), *tiles); });
}

// Between the arrays that the run is bound to. A run that was freed is null, and refused.
retile_status retile_fortran_run_execute(retile_run* run) {
  if (run == nullptr) return retile_run_execute(run, nullptr, nullptr);
  return retile_run_execute(run, run->bound.sources.data(), run->bound.targets.data());
}

retile_status retile_fortran_run_start(retile_run* run) {
  if (run == nullptr) return retile_run_start(run, nullptr, nullptr);
  return retile_run_start(run, run->bound.sources.data(), run->bound.targets.data());
}

}  // extern "C"
