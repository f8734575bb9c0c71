#include "retile/engines/mpi/host_read.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/backend.h"

namespace retile::mpi {
namespace {

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

void read_box(const BoxCopy& copy, std::int64_t process, const std::byte* source, std::byte* target) {
  std::vector<iovec> local;
  std::vector<iovec> remote;
  const std::int64_t run_bytes = copy.run_bytes();
  for (std::int64_t done = 0; done < copy.bytes();) {
    local.clear();
    remote.clear();
    for (std::int64_t at = done; at < copy.bytes() && local.size() < most_parts;) {
      const auto [from, to] = copy.run_place(at / run_bytes);
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

bool read_memory(std::int64_t process, const std::byte* source, std::byte* target, std::int64_t bytes,
                 std::int64_t run_bytes) {
  std::vector<iovec> local;
  std::vector<iovec> remote;
  for (std::int64_t done = 0; done < bytes;) {
    local.clear();
    remote.clear();
    for (std::int64_t at = done; at < bytes && local.size() < most_parts; at += run_bytes) {
      local.push_back(part_at(target, at, std::min(run_bytes, bytes - at)));
      remote.push_back(part_at(source, at, std::min(run_bytes, bytes - at)));
    }
    const std::int64_t read = read_parts(process, local, remote);
    if (read <= 0) return false;
    done += read;
  }
  return true;
}

namespace {

template <typename Action>
std::int64_t best_duration_of(Action action) {
  std::int64_t best = INT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const std::int64_t start = now();
    action();
    best = std::min(best, now() - start);
  }
  return best;
}

}  // namespace

std::int64_t shortest_read_run(std::int64_t trial_bytes) {
  // Two buffers beyond a core's own cache, as tiles are, and staging.
  const std::int64_t bytes = std::max<std::int64_t>(trial_bytes, 1 << 20) * 8 / 17;
  std::vector<std::byte> source(static_cast<std::size_t>(bytes), std::byte{1});
  std::vector<std::byte> target(source.size());
  std::vector<std::byte> staging(source.size() / 16);
  const std::int64_t copying = best_duration_of([&] {
    for (std::size_t done = 0; done < source.size(); done += staging.size()) {
      const std::size_t size = std::min(staging.size(), source.size() - done);
      std::memcpy(staging.data(), source.data() + done, size);
      std::memcpy(target.data() + done, staging.data(), size);
    }
  });
  for (const std::int64_t run_bytes : {least_read_run, std::int64_t{16} << 10U, std::int64_t{128} << 10U}) {
    bool can_read = true;  // this process from itself, which takes the system as long
    const std::int64_t reading = best_duration_of(
        [&] { can_read = can_read && read_memory(getpid(), source.data(), target.data(), bytes, run_bytes); });
    // This rank is alone with the system here. Where all ranks of a host read at once, they wait for its locks.
    if (can_read && reading < copying * 3 / 4) return run_bytes;
  }
  return INT64_MAX;
}

}  // namespace retile::mpi
