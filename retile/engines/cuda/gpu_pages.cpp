#include "retile/engines/cuda/gpu_pages.h"

#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/engines/cuda/driver.h"

namespace retile::cuda {
namespace {

// The driver's functions for pages.
struct Driver {
  using Granularity = CUresult (*)(std::size_t*, const CUmemAllocationProp*, CUmemAllocationGranularity_flags);
  using Create = CUresult (*)(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                              unsigned long long);
  using Release = CUresult (*)(CUmemGenericAllocationHandle);
  using Reserve = CUresult (*)(CUdeviceptr*, std::size_t, std::size_t, CUdeviceptr, unsigned long long);
  using Free = CUresult (*)(CUdeviceptr, std::size_t);
  using Map = CUresult (*)(CUdeviceptr, std::size_t, std::size_t, CUmemGenericAllocationHandle, unsigned long long);
  using Unmap = CUresult (*)(CUdeviceptr, std::size_t);
  using SetAccess = CUresult (*)(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t);

  Granularity granularity = driver_function<Granularity>("cuMemGetAllocationGranularity");
  Create create = driver_function<Create>("cuMemCreate");
  Release release = driver_function<Release>("cuMemRelease");
  Reserve reserve = driver_function<Reserve>("cuMemAddressReserve");
  Free free = driver_function<Free>("cuMemAddressFree");
  Map map = driver_function<Map>("cuMemMap");
  Unmap unmap = driver_function<Unmap>("cuMemUnmap");
  SetAccess set_access = driver_function<SetAccess>("cuMemSetAccess");
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

CUmemAllocationProp properties_on(int gpu) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu};
  return properties;
}

CUdeviceptr address_of(const std::byte* memory) { return reinterpret_cast<CUdeviceptr>(memory); }

}  // namespace

GpuPages::GpuPages(int gpu) : gpu_(gpu) {
  const CurrentGpu current(gpu_);
  require(cudaFree(nullptr), "cudaFree");  // the driver's functions need a context
  const CUmemAllocationProp properties = properties_on(gpu_);
  std::size_t page = 0;
  require_driver(driver().granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cuMemGetAllocationGranularity");
  page_ = static_cast<std::int64_t>(page);
}

Buffer GpuPages::reserve(std::size_t bytes) {
  if (bytes == 0) return {};
  const CurrentGpu current(gpu_);
  const std::int64_t pages = divide_up(static_cast<std::int64_t>(bytes), page_);
  CUdeviceptr address = 0;
  require_driver(driver().reserve(&address, static_cast<std::size_t>(pages * page_), 0, 0, 0), "cuMemAddressReserve");
  auto* const begin = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  reserved_[begin].pages.resize(static_cast<std::size_t>(pages));
  return {begin, bytes, std::shared_ptr<void>(begin, [self = shared_from_this()](void* memory) {
            self->free(static_cast<const std::byte*>(memory));
          })};
}

GpuPages::Place GpuPages::find(const std::byte* pages, std::size_t bytes) {
  const auto after = reserved_.upper_bound(pages);
  if (after != reserved_.begin()) {
    auto& [begin, range] = *std::prev(after);
    const auto first = static_cast<std::size_t>((pages - begin) / page_);
    const std::size_t end = first + bytes / static_cast<std::size_t>(page_);
    if (end <= range.pages.size()) return {&range, first, end};
  }
  throw RuntimeError("in place, tiles lie in memory of Engine::allocate_pages()");
}

GpuPages::Page GpuPages::new_page() {
  if (!kept_.empty()) {
    const Page page = kept_.back();
    kept_.pop_back();
    return page;
  }
  const CUmemAllocationProp properties = properties_on(gpu_);
  Page page = 0;
  const CUresult result = driver().create(&page, static_cast<std::size_t>(page_), &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    throw RuntimeError(fmt::format("GPU {} has no memory for a page of {} bytes", gpu_, page_));
  }
  require_driver(result, "cuMemCreate");
  return page;
}

void GpuPages::set_access(const std::byte* pages, std::size_t count) const {
  if (count == 0) return;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, gpu_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  require_driver(driver().set_access(address_of(pages), count * static_cast<std::size_t>(page_), &access, 1),
                 "cuMemSetAccess");
}

void GpuPages::take(const std::byte* pages, std::size_t bytes) {
  const CurrentGpu current(gpu_);
  const Place place = find(pages, bytes);
  const auto page = static_cast<std::size_t>(page_);
  std::size_t mapped = 0;  // of the last pages, without access so far
  for (std::size_t i = place.first; i < place.end; ++i, pages += page_) {
    Page& there = place.range->pages[i];
    if (there != 0) {
      set_access(pages - mapped * page, std::exchange(mapped, 0));
      continue;
    }
    const Page taken = new_page();
    const CUresult result = driver().map(address_of(pages), page, 0, taken, 0);
    if (result != CUDA_SUCCESS) kept_.push_back(taken);
    require_driver(result, "cuMemMap");
    there = taken;
    ++place.range->count;
    ++mapped;
  }
  set_access(pages - mapped * page, mapped);
}

void GpuPages::give_back(const std::byte* pages, std::size_t bytes) {
  const CurrentGpu current(gpu_);
  const Place place = find(pages, bytes);
  for (std::size_t i = place.first; i < place.end; ++i, pages += page_) {
    Page& there = place.range->pages[i];
    if (there == 0) continue;
    require_driver(driver().unmap(address_of(pages), static_cast<std::size_t>(page_)), "cuMemUnmap");
    kept_.push_back(std::exchange(there, 0));
    --place.range->count;
  }
}

void GpuPages::release_kept() {
  for (const Page page : std::exchange(kept_, {})) driver().release(page);
}

std::int64_t GpuPages::resident_bytes(const Buffer& reserved) const {
  const auto found = reserved_.find(reserved.data());
  return found == reserved_.end() ? 0 : found->second.count * page_;
}

// The work that used it may still be on its way where a run has failed.
void GpuPages::free(const std::byte* begin) noexcept {
  Range range = std::move(reserved_.extract(begin).mapped());
  int before = 0;
  cudaGetDevice(&before);
  cudaSetDevice(gpu_);
  cudaDeviceSynchronize();
  const auto page = static_cast<std::size_t>(page_);
  for (std::size_t i = 0; i < range.pages.size(); ++i) {
    if (range.pages[i] == 0) continue;
    driver().unmap(address_of(begin) + i * page, page);
    driver().release(range.pages[i]);
  }
  driver().free(address_of(begin), range.pages.size() * page);
  cudaSetDevice(before);
}

}  // namespace retile::cuda
