#include "retile/copies/host_read.h"

#include <fmt/format.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "retile/base/error.h"

namespace retile {
namespace {

constexpr std::size_t most_parts = 1024;                       // that the system takes in one call
constexpr std::int64_t most_bytes = std::int64_t{512} << 20U;  // of one call; the system takes 2 GiB, gaps included

iovec part_at(const std::byte* memory, std::int64_t offset, std::int64_t size) {
  // NOLINTNEXTLINE(*-const-cast): the system's interface
  return {const_cast<std::byte*>(memory) + offset, static_cast<std::size_t>(size)};
}

// One call of the system. Returns the bytes that it read, from the first part on; 0 or less where it refuses.
std::int64_t read_parts(std::int64_t process, const std::vector<iovec>& local, const std::vector<iovec>& remote) {
  return process_vm_readv(static_cast<pid_t>(process), local.data(), local.size(), remote.data(), remote.size(), 0);
}

// The memory of one call. Both lists have equally many bytes: what is read of gaps goes to memory that nobody looks at.
class Parts {  // NOLINT(*-member-init): see ignored_
 public:
  bool is_full() const { return std::max(local_.size(), remote_.size()) + 2 > most_parts; }

  void add(const iovec& remote, const iovec& local) {
    bytes_ += remote.iov_len;
    const std::size_t gap = gap_before(remote);
    if (gap == SIZE_MAX) {
      remote_.push_back(remote);
    } else {
      remote_.back().iov_len += gap + remote.iov_len;
      bytes_ += gap;
      if (gap > 0) local_.push_back({ignored_.data(), gap});
    }
    if (!local_.empty() && end_of(local_.back()) == local.iov_base) {
      local_.back().iov_len += local.iov_len;
    } else {
      local_.push_back(local);
    }
  }

  // Throws RuntimeError. A read that ends early came to memory that is not there.
  void read(std::int64_t process) {
    const std::int64_t read = read_parts(process, local_, remote_);
    if (read < 0) throw RuntimeError(fmt::format("process_vm_readv: {}", std::strerror(errno)));
    if (read < static_cast<std::int64_t>(bytes_)) throw RuntimeError("process_vm_readv: some memory is not there");
    local_.clear();
    remote_.clear();
    bytes_ = 0;
  }

 private:
  static std::byte* end_of(const iovec& part) { return static_cast<std::byte*>(part.iov_base) + part.iov_len; }

  // Bytes between the last part and this one, if they are read along; else SIZE_MAX.
  std::size_t gap_before(const iovec& remote) const {
    if (remote_.empty() || remote.iov_base < end_of(remote_.back())) return SIZE_MAX;
    const auto gap = static_cast<std::byte*>(remote.iov_base) - end_of(remote_.back());
    return is_read_along(gap, static_cast<std::int64_t>(remote_.back().iov_len)) ? static_cast<std::size_t>(gap)
                                                                                 : SIZE_MAX;
  }

  std::vector<iovec> local_;
  std::vector<iovec> remote_;
  std::size_t bytes_ = 0;
  std::array<std::byte, most_read_gap> ignored_;  // never looked at, so not initialized
};

}  // namespace

void read_box(const BoxCopy& copy, std::int64_t process, const std::byte* source, std::byte* target, ByteRange range) {
  Parts parts;
  const std::int64_t run_bytes = copy.run_bytes();
  for (std::int64_t done = range.begin; done < range.end;) {
    std::int64_t at = done;
    while (at < std::min(range.end, done + most_bytes) && !parts.is_full()) {
      const auto [from, to] = copy.run_place(at / run_bytes);
      const std::int64_t begin = at % run_bytes;
      const std::int64_t size = std::min({run_bytes - begin, range.end - at, most_bytes});
      parts.add(part_at(source, from + begin, size), part_at(target, to + begin, size));
      at += size;
    }
    parts.read(process);
    done = at;
  }
}

bool read_memory(std::int64_t process, const std::byte* source, std::byte* target, std::int64_t bytes,
                 std::int64_t run_bytes) {
  std::vector<iovec> local;
  std::vector<iovec> remote;
  for (std::int64_t done = 0; done < bytes;) {
    local.clear();
    remote.clear();
    for (std::int64_t at = done; at < bytes && local.size() < most_parts / 2; at += run_bytes) {
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
std::chrono::nanoseconds best_duration_of(Action action) {
  auto best = std::chrono::nanoseconds::max();
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    action();
    best = std::min<std::chrono::nanoseconds>(best, std::chrono::steady_clock::now() - start);
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
  const auto copying = best_duration_of([&] {
    for (std::size_t done = 0; done < source.size(); done += staging.size()) {
      const std::size_t size = std::min(staging.size(), source.size() - done);
      std::memcpy(staging.data(), source.data() + done, size);
      std::memcpy(target.data() + done, staging.data(), size);
    }
  });
  for (const std::int64_t run_bytes : {least_read_run, std::int64_t{16} << 10U, std::int64_t{128} << 10U}) {
    bool can_read = true;  // this process from itself, which takes the system as long
    const auto reading = best_duration_of(
        [&] { can_read = can_read && read_memory(getpid(), source.data(), target.data(), bytes, run_bytes); });
    // This rank is alone with the system here. Where all ranks of a host read at once, they wait for its locks.
    if (can_read && reading < copying * 3 / 4) return run_bytes;
  }
  return INT64_MAX;
}

}  // namespace retile
