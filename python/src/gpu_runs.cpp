// Runs on GPUs, if the library has the CUDA engine: arrays of other packages, by DLPack, on their streams.
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "arrays.h"
#include "plans.h"
#ifdef RETILE_HAS_CUDA
#include "retile/engines/cuda/cuda_engine.h"
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {

#ifdef RETILE_HAS_CUDA

// Prepared redistributions of a plan, kept with it, because CUDA graphs may use them. Runs on one stream follow each
// other; each stream has its own.
struct GpuRuns {
  using Layouts = std::vector<std::pair<std::int64_t, Strides>>;
  // GPU, stream, bytes of an element, and the memory layouts of sources and targets.
  using Key = std::tuple<int, std::uintptr_t, std::int64_t, Layouts, Layouts>;

  std::mutex mutex;
  std::map<Key, std::unique_ptr<ByteRedistribution>> prepared;
};

namespace {

thread_local CUstream_st* current_stream = nullptr;

// The engine of a GPU. Engines are never destroyed: when statics are, CUDA has shut down.
Engine& engine_on(int gpu) {
  static std::mutex mutex;
  static auto* const engines = new std::map<int, std::unique_ptr<Engine>>;
  const std::scoped_lock lock(mutex);
  std::unique_ptr<Engine>& engine = (*engines)[gpu];
  if (engine == nullptr) {
    cuda::CudaOptions options;
    options.gpu = gpu;
    options.stream = [] { return current_stream; };
    engine = cuda::make_cuda_engine(options);
  }
  return *engine;
}

GpuRuns::Layouts listed(const std::vector<MemoryLayout>& layouts) {
  GpuRuns::Layouts list;
  for (const MemoryLayout& layout : layouts) list.emplace_back(layout.offset, layout.strides);
  return list;
}

std::shared_ptr<GpuRuns> runs_of(const PythonPlan& plan) {
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (plan.gpu_runs() == nullptr) plan.gpu_runs() = std::make_shared<GpuRuns>();
  return plan.gpu_runs();
}

// Puts the run on the stream. Returns at once, or after the run where `waits` is set.
void redistribute_on_gpu(const PythonPlan& plan, std::int64_t element_size, const std::vector<PythonArray>& sources,
                         const std::vector<PythonArray>& targets, int gpu, std::uintptr_t stream, bool waits) {
  const ArraysInMemory from(sources, element_size);
  const ArraysInMemory to(targets, element_size);
  const std::shared_ptr<GpuRuns> runs = runs_of(plan);
  const std::scoped_lock lock(runs->mutex);
  current_stream = reinterpret_cast<CUstream_st*>(stream);  // NOLINT(*-reinterpret-cast): packages give numbers
  std::unique_ptr<ByteRedistribution>& run =
      runs->prepared[{gpu, stream, element_size, listed(from.layouts), listed(to.layouts)}];
  if (run == nullptr) {
    RedistributeOptions options{from.layouts, to.layouts, &engine_on(gpu)};
    run = std::make_unique<ByteRedistribution>(plan.plan(), element_size, options);
  }
  run->start(from.sources(), to.spans);
  if (waits) run->wait();
}

}  // namespace

#endif

namespace {

// A description of an array in DLPack's terms: kind and number of its device, address, shape, strides in bytes, code
// and bits of its elements.
using DescribedArray = std::tuple<int, int, std::uintptr_t, Shape, Strides, int, int>;

DescribedArray describe_array(const nb::ndarray<nb::ro>& array) {
  const nb::dlpack::dtype type = array.dtype();
  Shape shape;
  Strides strides;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    strides.push_back(array.stride(i) * type.bits / 8);
  }
  // NOLINTNEXTLINE(*-reinterpret-cast): Python takes addresses as numbers
  return {array.device_type(), array.device_id(), reinterpret_cast<std::uintptr_t>(array.data()), shape, strides,
          type.code,           type.bits};
}

}  // namespace

void bind_gpu_runs(nb::module_& module) {
  module.def("describe_array", &describe_array, "array"_a);
#ifdef RETILE_HAS_CUDA
  module.attr("has_cuda") = true;
  module.def("redistribute_on_gpu", &redistribute_on_gpu, "plan"_a, "element_size"_a, "sources"_a, "targets"_a, "gpu"_a,
             "stream"_a, "waits"_a, nb::call_guard<nb::gil_scoped_release>());
#else
  module.attr("has_cuda") = false;
#endif
}

}  // namespace retile::python
