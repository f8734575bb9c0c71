// What the Fortran module (c/fortran/retile.f90) needs beyond retile/c.h: arrays as Fortran describes them, so that
// slices are moved as they lie. Compiled by the compilers of one vendor, whose descriptors these are.
#include <ISO_Fortran_binding.h>

#include <string>

#include "c/src/handles.h"
#include "retile/c.h"

namespace {

using namespace retile;

std::string product_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text.empty() ? "a scalar" : text;
}

std::vector<std::int64_t> extents_of(const CFI_cdesc_t& array) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < array.rank; ++i) extents.push_back(array.dim[i].extent);
  return extents;
}

// The tile of this rank's only device. Throws InputError where it has several devices or the tile several boxes.
std::vector<std::int64_t> tile_shape(const Layout& layout, const Engine& engine, std::int64_t world) {
  const std::vector<Device> devices = engine.devices(world);
  if (devices.size() != 1) {
    throw InputError("this process has " + std::to_string(devices.size()) + " devices",
                     "from Fortran every rank has one; use retile/c.h for several");
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(layout.rank()));
  const std::optional<Box> box = retile::c::box_of(layout, devices.front(), world);
  for (std::size_t i = 0; box && i < shape.size(); ++i) shape[i] = box->hi[i] - box->lo[i];
  return shape;
}

// Where an array's elements lie. Throws InputError where it is not the tile of this rank's device.
MemoryLayout memory_of(const CFI_cdesc_t& array, const std::string& name, const Layout& layout, ElementType element,
                       const Engine& engine, std::int64_t world) {
  const std::vector<std::int64_t> shape = tile_shape(layout, engine, world);
  if (static_cast<std::int64_t>(array.elem_len) != bytes_of(element)) {
    throw InputError("the elements of the " + name + " have " + std::to_string(array.elem_len) + " bytes, but " +
                         name_of(element) + " has " + std::to_string(bytes_of(element)),
                     "");
  }
  if (extents_of(array) != shape) {
    throw InputError(
        "the " + name + " is " + product_text(extents_of(array)) + ", but this rank's tile is " + product_text(shape),
        "retile_layout_tile says which elements a device holds");
  }
  MemoryLayout memory;
  for (int i = 0; i < array.rank; ++i) memory.strides.push_back(array.dim[i].sm);
  return memory;
}

// Extents and strides: what two arrays have in common that a run can move alike.
std::vector<std::int64_t> shape_in_memory(const CFI_cdesc_t& array) {
  std::vector<std::int64_t> shape = extents_of(array);
  for (int i = 0; i < array.rank; ++i) shape.push_back(array.dim[i].sm);
  return shape;
}

void bind(retile::c::BoundArrays& bound, const CFI_cdesc_t& source, const CFI_cdesc_t& target) {
  bound.sources.push_back(source.base_addr);
  bound.targets.push_back(target.base_addr);
  bound.shapes.push_back(shape_in_memory(source));
  bound.shapes.push_back(shape_in_memory(target));
}

// Binds a run of one array to other arrays. Throws InputError where they lie in memory otherwise than the first ones:
// then the run is not executed here, which other ranks hear of.
void bind_again(retile_run& run, const CFI_cdesc_t& source, const CFI_cdesc_t& target) {
  retile::c::BoundArrays bound;
  bind(bound, source, target);
  if (bound.shapes != run.bound.shapes) {
    const std::string why = "the arrays are not shaped, or do not lie in memory, as those that the run was made with";
    std::visit([&](auto& value) { value.refuse(why); }, run.value);
    throw InputError(why, "");
  }
  run.bound = std::move(bound);
}

}  // namespace

extern "C" {

retile_status retile_fortran_run_create(const retile_plan* plan, retile_engine* engine, const CFI_cdesc_t* source,
                                        const CFI_cdesc_t* target, retile_run** run) {
  return retile::c::guarded([&] {
    const Engine& on = *retile::c::require(engine, "engine").value;
    RedistributeOptions options;
    options.engine = engine->value.get();
    on.processes().do_together([&] {
      const Plan& given = retile::c::require(plan, "plan").value;
      const std::int64_t world = given.device_count();
      options.sources = {memory_of(*source, "source", given.source, plan->element, on, world)};
      options.targets = {memory_of(*target, "target", given.target, plan->element, on, world)};
    });
    retile::c::BoundArrays bound;
    bind(bound, *source, *target);
    *run = new retile_run{ByteRedistribution(plan->value, bytes_of(plan->element), options), {""}, std::move(bound)};
  });
}

retile_status retile_fortran_transfer_add(retile_transfer* transfer, const char* name,
                                          const retile_layout* source_layout, const retile_layout* target_layout,
                                          const char* element, const retile_engine* engine, const CFI_cdesc_t* source,
                                          const CFI_cdesc_t* target) {
  return retile::c::guarded([&] {
    const Layout& from = retile::c::require(source_layout, "source_layout").value;
    const Layout& to = retile::c::require(target_layout, "target_layout").value;
    const Engine& on = *retile::c::require(engine, "engine").value;
    const ElementType type = retile::c::element_of(element);
    Problem problem(name, from, to, type);
    const std::int64_t world = problem.device_count();
    retile::c::require(transfer, "transfer")
        .arrays.push_back({name,
                           std::move(problem),
                           {memory_of(*source, "source", from, type, on, world)},
                           {memory_of(*target, "target", to, type, on, world)}});
    bind(transfer->bound, *source, *target);
  });
}

retile_status retile_fortran_run_bind(retile_run* run, const CFI_cdesc_t* source, const CFI_cdesc_t* target) {
  return retile::c::guarded([&] { bind_again(retile::c::require(run, "run"), *source, *target); });
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
