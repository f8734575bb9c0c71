#include "retile/engines/mpi/host_read.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

constexpr std::int64_t long_run = 2048;  // bytes; half a page
constexpr std::size_t most_parts = 512;  // of one call; the system takes 1024

iovec part_at(const std::byte* memory, std::int64_t offset, std::int64_t size) {
  // NOLINTNEXTLINE(*-const-cast): the system's interface
  return {const_cast<std::byte*>(memory) + offset, static_cast<std::size_t>(size)};
}

// One call of the system. Returns the bytes that it read, from the first part on; 0 or less where it refuses.
std::int64_t read_parts(std::int64_t process, const std::vector<iovec>& local, const std::vector<iovec>& remote) {
  return process_vm_readv(static_cast<pid_t>(process), local.data(), local.size(), remote.data(), remote.size(), 0);
}

}  // namespace

std::int64_t place_in_tile(const Box& tile, const Box& box, std::int64_t element_size, std::int64_t packed) {
  std::int64_t element = packed / element_size;
  std::int64_t place = packed % element_size;
  std::int64_t stride = element_size;
  for (std::size_t i = box.lo.size(); i-- > 0;) {
    const std::int64_t extent = box.hi[i] - box.lo[i];
    place += (box.lo[i] - tile.lo[i] + element % extent) * stride;
    element /= extent;
    stride *= tile.hi[i] - tile.lo[i];
  }
  return place;
}

HostRead::HostRead(const Box& source, const Box& target, const Box& box, std::int64_t element_size)
    : source_(source), target_(target), box_(box), element_size_(element_size) {
  const BoxCopy copy(source, target, box, element_size);
  run_bytes_ = copy.run_bytes();
  bytes_ = copy.bytes();
}

bool HostRead::suits() const { return run_bytes_ >= long_run; }

void HostRead::run(std::int64_t process, const std::byte* source, std::byte* target) const {
  std::vector<iovec> local;
  std::vector<iovec> remote;
  for (std::int64_t done = 0; done < bytes_;) {
    local.clear();
    remote.clear();
    for (std::int64_t at = done; at < bytes_ && local.size() < most_parts;) {
      const std::int64_t size = run_bytes_ - at % run_bytes_;
      local.push_back(part_at(target, place_in_tile(target_, box_, element_size_, at), size));
      remote.push_back(part_at(source, place_in_tile(source_, box_, element_size_, at), size));
      at += size;
    }
    const std::int64_t read = read_parts(process, local, remote);
    if (read <= 0) {
      throw RuntimeError(fmt::format("process_vm_readv: {}", read < 0 ? std::strerror(errno) : "nothing was read"));
    }
    done += read;
  }
}

bool read_memory(std::int64_t process, const std::byte* source, std::byte* target, std::int64_t bytes) {
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t read =
        read_parts(process, {part_at(target, done, bytes - done)}, {part_at(source, done, bytes - done)});
    if (read <= 0) return false;
    done += read;
  }
  return true;
}

}  // namespace retile::mpi
