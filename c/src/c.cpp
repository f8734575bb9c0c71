#include "retile/c.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string_view>

#include "c/src/handles.h"

using namespace retile;
using namespace retile::c;

// --- Errors.

namespace {

thread_local std::string last_message;

}  // namespace

retile_status retile::c::fail(retile_status status, std::string message) noexcept {
  while (message.ends_with('\n')) message.pop_back();
  last_message = std::move(message);
  return status;
}

ElementType retile::c::element_of(const char* name) {
  const char* text = &require(name, "element");
  if (const auto type = find_element_type(text)) return *type;
  throw InputError(std::string("unknown element type '") + text + "'",
                   "element types are " + std::string(element_type_names));
}

const char* retile_error_message() { return last_message.c_str(); }

const char* retile_version() { return RETILE_VERSION; }

// --- Arguments and results.

namespace {

SourceText text_of(const char* text, const char* name) { return {name, &require(text, name)}; }

void write_text(std::string_view from, char* text, std::size_t capacity, std::size_t* length) {
  if (length != nullptr) *length = from.size();
  if (capacity == 0) return;
  const std::size_t written = std::min(from.size(), capacity - 1);
  std::memcpy(&require(text, "text"), from.data(), written);
  text[written] = '\0';
}

std::vector<MemoryLayout> memory_of(const retile_memory* memory, const Layout& layout) {
  if (memory == nullptr) return {};
  if (memory->count < 1) throw InputError("a layout of memory has a count below 1", "pass NULL where tiles are packed");
  std::vector<MemoryLayout> layouts(static_cast<std::size_t>(memory->count));
  const auto dimensions = static_cast<std::size_t>(layout.rank());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (memory->offsets != nullptr) layouts[i].offset = memory->offsets[i];
    if (memory->strides == nullptr) continue;
    const std::int64_t* strides = memory->strides + i * dimensions;
    layouts[i].strides = tile_strides(layout, Strides(strides, strides + dimensions));
  }
  return layouts;
}

const char* or_else(const char* text, const char* other) { return text == nullptr ? other : text; }

PlanOptions plan_options(const retile_plan_options* given) {
  PlanOptions options;
  if (given == nullptr) return options;
  const std::string planner = or_else(given->planner, "auto");
  const std::string cost = or_else(given->cost, "paper");
  const auto kind = find_planner(planner);
  if (!kind) throw InputError("unknown planner '" + planner + "'", "planners are " + std::string(planner_names));
  const CostModel* model = find_cost_model(cost);
  if (model == nullptr) throw InputError("unknown cost model '" + cost + "'", "cost models are paper, volume");
  if (given->memory_limit < 0) throw InputError("a memory limit cannot be negative", "0 is no limit");
  options.planner = *kind;
  options.cost_model = model;
  if (given->memory_limit > 0) options.memory_limit = given->memory_limit;
  return options;
}

}  // namespace

// --- Meshes.

retile_status retile_mesh_parse(const char* text, retile_mesh** mesh) {
  return create(mesh, [&] { return parse_mesh(text_of(text, "mesh")); });
}

retile_status retile_mesh_create(int axes, const int64_t* sizes, const char* const* names, retile_mesh** mesh) {
  return create(mesh, [&] {
    std::vector<Axis> made;
    for (const std::int64_t size : list_of(sizes, axes, "sizes")) {
      const std::size_t i = made.size();
      made.push_back({names == nullptr ? "a" + std::to_string(i) : &require(names[i], "names"), size});
    }
    return Mesh(std::move(made));
  });
}

int64_t retile_mesh_devices(const retile_mesh* mesh) { return mesh == nullptr ? 0 : mesh->value.device_count(); }

void retile_mesh_free(retile_mesh* mesh) { delete mesh; }

// --- Layouts.

retile_status retile_layout_parse(const retile_mesh* mesh, const char* text, retile_layout** layout) {
  return create(layout, [&] { return parse_layout(text_of(text, "layout"), require(mesh, "mesh").value); });
}

retile_status retile_layout_create(const retile_mesh* mesh, int rank, const int64_t* shape, const int* axis_counts,
                                   const int* axes, retile_layout** layout) {
  return create(layout, [&] {
    const Mesh& on = require(mesh, "mesh").value;
    MeshLayout cuts{on, {}, UnevenRule::ceiling, {}, Reduction::sum, {}};
    const std::span<const int> counts = list_of(axis_counts, rank, "axis_counts");
    const int* next = axes;
    for (const std::int64_t size : list_of(shape, rank, "shape")) {
      Factor factor{size, {}};
      for (const int axis : list_of(next, counts[cuts.view.size()], "axes")) {
        if (axis < 0 || axis >= on.axis_count()) {
          throw InputError("axis " + std::to_string(axis) + " is not one of the mesh",
                           "its " + std::to_string(on.axis_count()) + " axes count from 0");
        }
        factor.axes.push_back(on.whole(axis));
      }
      if (next != nullptr) next += counts[cuts.view.size()];
      cuts.view.push_back({std::move(factor)});
    }
    return Layout(std::move(cuts));
  });
}

retile_status retile_layout_boxes(int rank, const int64_t* shape, int64_t devices, const int64_t* box_counts,
                                  const int64_t* bounds, retile_layout** layout) {
  return create(layout, [&] {
    const std::span<const std::int64_t> sizes = list_of(shape, rank, "shape");
    BoxLayout listed{Shape(sizes.begin(), sizes.end()), {}};
    for (const std::int64_t count : list_of(box_counts, devices, "box_counts")) {
      list_of(bounds, count, "bounds");
      std::vector<Box>& boxes = listed.boxes.emplace_back();
      for (std::int64_t i = 0; i < count; ++i) {
        Box box;
        for (int dimension = 0; dimension < rank; ++dimension, bounds += 2) {
          box.lo.push_back(bounds[0]);
          box.hi.push_back(bounds[1]);
        }
        boxes.push_back(std::move(box));
      }
    }
    return Layout(std::move(listed));
  });
}

namespace {

MatrixDescriptor descriptor_of(const int* descriptor) {
  return MatrixDescriptor(&require(descriptor, "descriptor"), 9);
}

MemoryOrder grid_order(const char* order) {
  const std::string name = &require(order, "order");
  if (name == "R") return MemoryOrder::row_major;
  if (name == "C") return MemoryOrder::column_major;
  throw InputError("unknown order of a grid '" + name + "'", "orders are R, C");
}

}  // namespace

retile_status retile_layout_from_descriptor(const int* descriptor, int rows, int columns, const char* order,
                                            retile_layout** layout) {
  return create(layout, [&] {
    return layout_from_descriptor(descriptor_of(descriptor), {rows, columns, grid_order(order)});
  });
}

int retile_layout_rank(const retile_layout* layout) { return layout == nullptr ? 0 : layout->value.rank(); }

int64_t retile_layout_devices(const retile_layout* layout) {
  return layout == nullptr ? 0 : layout->value.device_count();
}

// Parts of a sum are side by side along dimensions in front, of which a device has one element: any stride does.
Strides retile::c::tile_strides(const Layout& layout, Strides strides) {
  strides.insert(strides.begin(), layout.partial().size(), 1);
  return strides;
}

const Layout& retile::c::require_device(const retile_layout* layout, Device device) {
  const Layout& value = require(layout, "layout").value;
  if (device < 0 || device >= value.device_count()) {
    throw InputError("there is no device " + std::to_string(device),
                     "the layout's " + std::to_string(value.device_count()) + " devices count from 0");
  }
  return value;
}

namespace {

// The box of the array that a device holds, of a sum in one of its parts; nothing where it holds nothing. Throws
// InputError where it has several boxes.
std::optional<Box> box_of(const Layout& layout, Device device) {
  const std::vector<Part> parts = layout.placement().parts(device);
  if (parts.size() > 1) {
    throw InputError("device " + std::to_string(device) + " has several boxes",
                     "retile_layout_local_shape gives the shape of its array");
  }
  if (parts.empty()) return std::nullopt;
  Box box = parts.front().box;
  const auto stacked = static_cast<std::ptrdiff_t>(box.lo.size()) - layout.rank();
  box.lo.erase(box.lo.begin(), box.lo.begin() + stacked);
  box.hi.erase(box.hi.begin(), box.hi.begin() + stacked);
  return box;
}

}  // namespace

retile_status retile_layout_tile(const retile_layout* layout, int64_t device, int64_t* first, int64_t* end) {
  return guarded([&] {
    const Layout& value = require_device(layout, device);
    const auto rank = static_cast<std::size_t>(value.rank());
    const std::optional<Box> box = box_of(value, device);
    if (rank == 0) return;
    const Box shown = box.value_or(Box{Shape(rank), Shape(rank)});
    std::copy(shown.lo.begin(), shown.lo.end(), &require(first, "first"));
    std::copy(shown.hi.begin(), shown.hi.end(), &require(end, "end"));
  });
}

retile_status retile_layout_local_shape(const retile_layout* layout, int64_t device, int* dimensions, int64_t* shape) {
  return guarded([&] {
    const Shape sizes = require_device(layout, device).local_shape(device);
    require(dimensions, "dimensions") = static_cast<int>(sizes.size());
    if (!sizes.empty()) std::copy(sizes.begin(), sizes.end(), &require(shape, "shape"));
  });
}

retile_status retile_layout_size(const retile_layout* layout, int64_t device, int64_t* elements) {
  return guarded([&] { require(elements, "elements") = require_device(layout, device).placement().size(device); });
}

retile_status retile_layout_text(const retile_layout* layout, char* text, size_t capacity, size_t* length) {
  return guarded([&] { write_text(to_string(require(layout, "layout").value), text, capacity, length); });
}

void retile_layout_free(retile_layout* layout) { delete layout; }

// --- Plans.

retile_status retile_plan_create(const retile_layout* source, const retile_layout* target, const char* element,
                                 const retile_plan_options* options, retile_plan** plan) {
  return guarded([&] {
    retile_plan*& handle = require(plan, "plan");
    const ElementType type = element_of(element);
    const Problem problem("", require(source, "source").value, require(target, "target").value, type);
    handle = new retile_plan{make_plan(problem, plan_options(options)), type};
  });
}

retile_status retile_plan_parse(const char* json, const char* element, retile_plan** plan) {
  return guarded([&] {
    retile_plan*& handle = require(plan, "plan");
    const ElementType type = element_of(element);
    StatedPlan stated = parse_plan(text_of(json, "json"));
    handle = new retile_plan{std::move(stated.plan), type};
  });
}

retile_status retile_plan_verify(const retile_plan* plan) {
  return guarded([&] {
    std::string message;
    for (const std::string& fault : find_faults(require(plan, "plan").value)) message += fault + "\n";
    if (!message.empty()) throw RuntimeError(message);
  });
}

int64_t retile_plan_devices(const retile_plan* plan) { return plan == nullptr ? 0 : plan->value.device_count(); }
int64_t retile_plan_cost(const retile_plan* plan) { return plan == nullptr ? 0 : plan->value.cost.total; }
int64_t retile_plan_lower_bound(const retile_plan* plan) { return plan == nullptr ? 0 : plan->value.cost.lower_bound; }

retile_status retile_plan_text(const retile_plan* plan, char* text, size_t capacity, size_t* length) {
  return guarded([&] { write_text(to_string(require(plan, "plan").value), text, capacity, length); });
}

retile_status retile_plan_json(const retile_plan* plan, char* text, size_t capacity, size_t* length) {
  return guarded([&] { write_text(to_json(require(plan, "plan").value), text, capacity, length); });
}

void retile_plan_free(retile_plan* plan) { delete plan; }

// --- Engines.

retile_status retile_engine_threads(int threads, retile_engine** engine) {
  return create(engine, [&] {
    if (threads < 0) throw InputError("threads cannot be fewer than none", "0 is one for each core");
    ThreadsOptions options;
    options.threads = threads;
    return make_threads_engine(options);
  });
}

retile_status retile_engine_devices(const retile_engine* engine, int64_t count, int64_t* devices, size_t capacity,
                                    size_t* number) {
  return guarded([&] {
    const std::vector<Device> own = require(engine, "engine").value->devices(count);
    if (number != nullptr) *number = own.size();
    const std::size_t written = std::min(own.size(), capacity);
    if (written > 0) std::copy_n(own.begin(), written, &require(devices, "devices"));
  });
}

retile_status retile_engine_allocate(retile_engine* engine, size_t bytes, void** memory) {
  return guarded([&] {
    void*& place = require(memory, "memory");
    Buffer buffer = require(engine, "engine").value->allocate(std::max<std::size_t>(bytes, 1));
    void* const data = buffer.data();
    engine->allocated.emplace(data, std::move(buffer));
    place = data;
  });
}

retile_status retile_engine_release(retile_engine* engine, void* memory) {
  return guarded([&] {
    if (memory == nullptr) return;
    if (require(engine, "engine").allocated.erase(memory) == 0) {
      throw InputError("this memory was not allocated by the engine", "");
    }
  });
}

void retile_engine_free(retile_engine* engine) {
  guarded([&] { delete engine; });
}

// --- Runs.

retile_status retile_memory_from_descriptor(const int* descriptor, const char* element, int64_t* strides,
                                            retile_memory* memory) {
  return guarded([&] {
    const MemoryLayout layout = memory_from_descriptor(descriptor_of(descriptor), bytes_of(element_of(element)));
    retile_memory& described = require(memory, "memory");
    std::copy(layout.strides.begin(), layout.strides.end(), &require(strides, "strides"));
    described = {1, nullptr, strides};
  });
}

retile_status retile_run_create(const retile_plan* plan, retile_engine* engine, const retile_memory* sources,
                                const retile_memory* targets, retile_run** run) {
  return guarded([&] {
    RedistributeOptions options;
    options.engine = require(engine, "engine").value.get();
    options.engine->processes().do_together([&] {
      require(run, "run");
      const Plan& given = require(plan, "plan").value;
      options.sources = memory_of(sources, given.source);
      options.targets = memory_of(targets, given.target);
    });
    *run = new retile_run{ByteRedistribution(plan->value, bytes_of(plan->element), options), {""}};
  });
}

retile_status retile_transfer_create(retile_transfer** transfer) {
  return create(transfer, [] { return std::vector<transfer::TransferArray>(); });
}

retile_status retile_transfer_add(retile_transfer* transfer, const char* name, const retile_layout* source,
                                  const retile_layout* target, const char* element, const retile_memory* sources,
                                  const retile_memory* targets) {
  return guarded([&] {
    std::string id = &require(name, "name");
    Problem problem(id, require(source, "source").value, require(target, "target").value, element_of(element));
    require(transfer, "transfer")
        .arrays.push_back(
            {std::move(id), std::move(problem), memory_of(sources, source->value), memory_of(targets, target->value)});
  });
}

retile_status retile_transfer_run(const retile_transfer* transfer, retile_engine* engine, int64_t max_bytes,
                                  retile_run** run) {
  return guarded([&] {
    transfer::TransferOptions options;
    options.engine = require(engine, "engine").value.get();
    options.engine->processes().do_together([&] {
      require(run, "run");
      require(transfer, "transfer");
      if (max_bytes < 0) throw InputError("max_bytes cannot be negative", "0 is 256 MiB");
    });
    if (max_bytes > 0) options.max_bytes = max_bytes;
    std::vector<std::string> names;
    for (const transfer::TransferArray& array : transfer->arrays) names.push_back(array.name);
    *run = new retile_run{transfer::Transfer(transfer->arrays, options), std::move(names), transfer->bound};
  });
}

void retile_transfer_free(retile_transfer* transfer) { delete transfer; }

namespace {

// The buffers of one array's tiles as spans that are as long as the tiles reach. Those of null pointers are empty, and
// so are all where the list is null: the run refuses them where tiles have elements, and tells the other processes.
struct ArrayBuffers {
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> targets;
};

const std::vector<Device>& devices_of(const retile_run& run) {
  return std::visit([](const auto& value) -> const std::vector<Device>& { return value.devices(); }, run.value);
}

TileBytes bytes_of_tile(const retile_run& run, std::size_t array, std::size_t device) {
  if (const auto* one = std::get_if<ByteRedistribution>(&run.value)) return one->tile_bytes(device);
  return std::get<transfer::Transfer>(run.value).tile_bytes(array, device);
}

template <typename Byte, typename Pointer>
std::span<Byte> span_at(const Pointer* list, std::size_t tile, std::int64_t bytes) {
  if (list == nullptr || list[tile] == nullptr) return {};
  return {static_cast<Byte*>(list[tile]), static_cast<std::size_t>(bytes)};
}

ArrayBuffers buffers_of(const retile_run& run, std::size_t array, const void* const* sources, void* const* targets) {
  ArrayBuffers buffers;
  const std::size_t devices = devices_of(run).size();
  for (std::size_t i = 0; i < devices; ++i) {
    const TileBytes bytes = bytes_of_tile(run, array, i);
    const std::size_t tile = array * devices + i;
    buffers.sources.push_back(span_at<const std::byte>(sources, tile, bytes.source));
    buffers.targets.push_back(span_at<std::byte>(targets, tile, bytes.target));
  }
  return buffers;
}

// Calls `work` with the redistribution and its buffers, or the transfer and the memory of its arrays.
template <typename Work>
void with_buffers(retile_run& run, const void* const* sources, void* const* targets, const Work& work) {
  if (auto* one = std::get_if<ByteRedistribution>(&run.value)) {
    const ArrayBuffers buffers = buffers_of(run, 0, sources, targets);
    work(*one, std::span(buffers.sources), std::span(buffers.targets));
    return;
  }
  std::vector<transfer::ArrayMemory> memory;
  for (std::size_t i = 0; i < run.names.size(); ++i) {
    ArrayBuffers buffers = buffers_of(run, i, sources, targets);
    memory.push_back({run.names[i], std::move(buffers.sources), std::move(buffers.targets)});
  }
  work(std::get<transfer::Transfer>(run.value), std::span<const transfer::ArrayMemory>(memory));
}

}  // namespace

size_t retile_run_arrays(const retile_run* run) { return run == nullptr ? 0 : run->names.size(); }

size_t retile_run_devices(const retile_run* run) { return run == nullptr ? 0 : devices_of(*run).size(); }

retile_status retile_run_bytes(const retile_run* run, size_t array, size_t device, int64_t* source, int64_t* target) {
  return guarded([&] {
    if (array >= require(run, "run").names.size() || device >= devices_of(*run).size()) {
      throw InputError("the run has no such array, or this process no such device", "both count from 0");
    }
    const TileBytes bytes = bytes_of_tile(*run, array, device);
    if (source != nullptr) *source = bytes.source;
    if (target != nullptr) *target = bytes.target;
  });
}

retile_status retile_run_execute(retile_run* run, const void* const* sources, void* const* targets) {
  return guarded([&] {
    with_buffers(require(run, "run"), sources, targets,
                 [](auto& value, const auto&... buffers) { value.run(buffers...); });
  });
}

retile_status retile_run_start(retile_run* run, const void* const* sources, void* const* targets) {
  return guarded([&] {
    with_buffers(require(run, "run"), sources, targets,
                 [](auto& value, const auto&... buffers) { value.start(buffers...); });
  });
}

retile_status retile_run_test(retile_run* run, int* done) {
  return guarded([&] {
    int& is_done = require(done, "done");
    is_done = std::visit([](auto& value) { return value.test(); }, require(run, "run").value) ? 1 : 0;
  });
}

retile_status retile_run_wait(retile_run* run) {
  return guarded([&] { std::visit([](auto& value) { value.wait(); }, require(run, "run").value); });
}

retile_status retile_run_statistics(retile_run* run, retile_statistics* statistics) {
  return guarded([&] {
    retile_statistics& result = require(statistics, "statistics");
    std::visit(
        [&](auto& value) {
          const auto figures = value.statistics();
          result = {figures.received_max, figures.staging_max, figures.seconds};
        },
        require(run, "run").value);
  });
}

void retile_run_free(retile_run* run) {
  guarded([&] { delete run; });
}
