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

bool HostRead::suits() const { return copy_.run_bytes() >= long_run; }

void HostRead::run(std::int64_t process, const std::byte* source, std::byte* target) const {
  std::vector<iovec> local;
  std::vector<iovec> remote;
  const std::int64_t run_bytes = copy_.run_bytes();
  for (std::int64_t done = 0; done < copy_.bytes();) {
    local.clear();
    remote.clear();
    for (std::int64_t at = done; at < copy_.bytes() && local.size() < most_parts;) {
      const auto [from, to] = copy_.run_place(at / run_bytes);
      const std::int64_t begin = at % run_bytes;
      local.push_back(part_at(target, to + begin, run_bytes - begin));
      remote.push_back(part_at(source, from + begin, run_bytes - begin));
      at += run_bytes - begin;
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
