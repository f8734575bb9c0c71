#include "retile/engines/cuda_mpi/shown_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "retile/base/error.h"
#include "retile/engines/cuda/driver.h"

namespace retile::cuda {
namespace {

// A number that no other allocation of this process has, or had.
std::uint64_t id_of(const std::byte* address) {
  using Function = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  static const auto function = driver_function<Function>("cuPointerGetAttribute");
  unsigned long long id = 0;
  require_driver(function(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, reinterpret_cast<CUdeviceptr>(address)),
                 "cuPointerGetAttribute");
  return id;
}

std::span<const std::byte> allocation_of(const std::byte* address) {
  using Function = CUresult (*)(CUdeviceptr*, std::size_t*, CUdeviceptr);
  static const auto function = driver_function<Function>("cuMemGetAddressRange");
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  require_driver(function(&begin, &bytes, reinterpret_cast<CUdeviceptr>(address)), "cuMemGetAddressRange");
  return {reinterpret_cast<const std::byte*>(begin), bytes};  // NOLINT(performance-no-int-to-ptr)
}

// --- Messages: a header, allocations, tiles of sources, tiles of targets.

struct Header {
  std::uint32_t is_news = 0;  // otherwise nothing follows
  std::uint32_t allocations = 0;
  std::uint32_t sources = 0;
  std::uint32_t targets = 0;
};

struct MessageAllocation {
  cudaIpcMemHandle_t handle;
  std::uint64_t id;
};

struct MessageTile {
  std::uint32_t number;
  std::uint32_t allocation;
  std::int64_t offset;
};

template <typename Value>
void put(std::vector<std::byte>& message, const Value& value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  message.insert(message.end(), bytes, bytes + sizeof value);
}

template <typename Value>
Value take(std::span<const std::byte>& message) {
  ensure(message.size() >= sizeof(Value), "a message about tiles is whole");
  Value value{};
  std::memcpy(&value, message.data(), sizeof value);
  message = message.subspan(sizeof value);
  return value;
}

cudaIpcMemHandle_t handle_of(const std::byte* begin) {
  cudaIpcMemHandle_t handle{};
  const cudaError_t error = cudaIpcGetMemHandle(&handle, const_cast<std::byte*>(begin));  // NOLINT(*-const-cast)
  if (error == cudaSuccess) return handle;
  cudaGetLastError();
  throw RuntimeError(
      fmt::format("a tile lies in memory that other processes cannot see, since it is not of cudaMalloc: {}",
                  cudaGetErrorString(error)));
}

}  // namespace

std::vector<const std::byte*> ShownTiles::addresses_in(const TilePointers& tiles) const {
  std::vector<const std::byte*> addresses;
  addresses.reserve(sources_.size() + targets_.size());
  for (const OwnTile& tile : sources_) addresses.push_back(tiles.sources[tile.place]);
  for (const OwnTile& tile : targets_) addresses.push_back(tiles.targets[tile.place]);
  return addresses;
}

// Memory at the same addresses may be other memory.
bool ShownTiles::are_shown(const std::vector<const std::byte*>& addresses) const {
  return addresses == shown_ && std::all_of(allocations_.begin(), allocations_.end(), [](const auto& entry) {
           cudaPointerAttributes attributes{};
           require(cudaPointerGetAttributes(&attributes, entry.first), "cudaPointerGetAttributes");
           return attributes.type == cudaMemoryTypeDevice && id_of(entry.first) == entry.second.id;
         });
}

const ShownTiles::Allocation& ShownTiles::find_allocation(const std::byte* address) {
  const auto after = allocations_.upper_bound(address);
  if (after != allocations_.begin() && address < std::prev(after)->second.end) return std::prev(after)->second;
  gpu_.require_here(address);
  const std::span<const std::byte> range = allocation_of(address);
  const auto number = static_cast<std::uint32_t>(allocations_.size());
  const Allocation allocation{range.data(), range.data() + range.size(), id_of(address), number};
  return allocations_.emplace(range.data(), allocation).first->second;
}

const std::vector<std::byte>& ShownTiles::show(const TilePointers& tiles) {
  const CurrentGpu current(gpu_.number());
  std::vector<const std::byte*> addresses = addresses_in(tiles);
  message_.clear();
  if (are_shown(addresses)) {
    put(message_, Header{});
    return message_;
  }
  shown_.clear();
  allocations_.clear();
  std::vector<MessageTile> shown;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const OwnTile& tile = i < sources_.size() ? sources_[i] : targets_[i - sources_.size()];
    const Allocation& allocation = find_allocation(addresses[i]);
    shown.push_back({tile.number, allocation.number, addresses[i] - allocation.begin});
  }
  std::vector<const Allocation*> numbered(allocations_.size());
  for (const auto& [begin, allocation] : allocations_) numbered[allocation.number] = &allocation;
  put(message_, Header{1, static_cast<std::uint32_t>(numbered.size()), static_cast<std::uint32_t>(sources_.size()),
                       static_cast<std::uint32_t>(targets_.size())});
  for (const Allocation* allocation : numbered) {
    put(message_, MessageAllocation{handle_of(allocation->begin), allocation->id});
  }
  for (const MessageTile& tile : shown) put(message_, tile);
  shown_ = std::move(addresses);
  return message_;
}

SeenTiles::~SeenTiles() {
  for (const auto& [id, memory] : mapped_) cudaIpcCloseMemHandle(memory);
}

void SeenTiles::look(std::span<const std::byte> message, std::span<const std::byte*> sources,
                     std::span<std::byte*> targets) {
  const auto header = take<Header>(message);
  if (header.is_news == 0) return;
  const CurrentGpu current(gpu_);
  std::map<std::uint64_t, std::byte*> before = std::exchange(mapped_, {});
  std::vector<std::byte*> allocations;
  for (std::uint32_t i = 0; i < header.allocations; ++i) {
    const auto allocation = take<MessageAllocation>(message);
    if (auto known = before.extract(allocation.id)) {
      allocations.push_back(known.mapped());
      mapped_.insert(std::move(known));
      continue;
    }
    void* memory = nullptr;
    require(cudaIpcOpenMemHandle(&memory, allocation.handle, cudaIpcMemLazyEnablePeerAccess), "cudaIpcOpenMemHandle");
    allocations.push_back(static_cast<std::byte*>(memory));
    mapped_.emplace(allocation.id, allocations.back());
  }
  for (std::uint32_t i = 0; i < header.sources + header.targets; ++i) {
    const auto tile = take<MessageTile>(message);
    std::byte* const address = allocations[tile.allocation] + tile.offset;
    if (i < header.sources) {
      sources[tile.number] = address;
    } else {
      targets[tile.number] = address;
    }
  }
  for (const auto& [id, memory] : before) require(cudaIpcCloseMemHandle(memory), "cudaIpcCloseMemHandle");
}

}  // namespace retile::cuda
