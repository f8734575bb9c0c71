#include "retile/engines/mpi/host_read.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <vector>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

constexpr std::int64_t long_run = 2048;       // bytes; half a page
constexpr std::int64_t slab_bytes = 1 << 18;  // stays in a core's cache until it is unpacked
constexpr std::size_t most_parts = 512;       // of one call; the system takes 1024

// The tile is read in slabs: ranges along one dimension, at one place of the dimensions before it and whole in those
// after it.
struct SlabCut {
  std::size_t dimension = 0;
  std::int64_t rows = 0;  // along the dimension in one slab; 0: not even one fits
  bool is_dense = false;  // at least half of each slab is wanted
};

SlabCut cut_into_slabs(const Box& tile, const Box& box, std::int64_t element_size, std::int64_t most_bytes) {
  SlabCut cut;
  std::int64_t row = element_size;  // bytes of the tile behind one index of the dimension
  double density = 1;
  for (std::size_t i = tile.lo.size(); i-- > 0;) {
    const std::int64_t fitting = most_bytes / row;
    if (fitting == 0) break;
    cut = {i, fitting, density >= 0.5};
    const std::int64_t extent = tile.hi[i] - tile.lo[i];
    if (fitting < extent) break;
    row *= extent;
    density *= static_cast<double>(box.hi[i] - box.lo[i]) / static_cast<double>(extent);
  }
  return cut;
}

std::int64_t run_in_tile(const Box& tile, const Box& box, std::int64_t element_size) {
  return BoxCopy(tile, box, box, element_size).run_bytes();
}

// One call of the system. Returns the bytes that it read, from the first part on.
std::int64_t read_parts(std::int64_t process, const std::vector<iovec>& local, const std::vector<iovec>& remote) {
  const ssize_t read =
      process_vm_readv(static_cast<pid_t>(process), local.data(), local.size(), remote.data(), remote.size(), 0);
  if (read > 0) return read;
  throw RuntimeError(fmt::format("process_vm_readv: {}", read < 0 ? std::strerror(errno) : "nothing was read"));
}

iovec part_at(const std::byte* memory, std::int64_t offset, std::int64_t size) {
  // NOLINTNEXTLINE(*-const-cast): the system's interface
  return {const_cast<std::byte*>(memory) + offset, static_cast<std::size_t>(size)};
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

bool HostRead::suits(const Box& source, const Box& box, std::int64_t element_size, std::int64_t staging_bytes) {
  if (run_in_tile(source, box, element_size) >= long_run) return true;
  return cut_into_slabs(source, box, element_size, std::min(slab_bytes, staging_bytes)).is_dense;
}

HostRead::HostRead(const Box& source, const Box& target, const Box& box, std::int64_t element_size)
    : source_(source),
      target_(target),
      box_(box),
      element_size_(element_size),
      copy_(source, target, box, element_size),
      packing_(target, box, element_size),
      run_(run_in_tile(source, box, element_size)) {}

void HostRead::run(std::int64_t process, const std::byte* source, std::byte* target,
                   std::span<std::byte> staging) const {
  if (copy_.run_bytes() >= long_run || copy_.run_count() == 1) {
    read_runs(process, source, target);
  } else if (run_ >= long_run) {
    read_pieces(process, source, target, staging);
  } else {
    read_slabs(process, source, target, staging);
  }
}

// Straight into the target.
void HostRead::read_runs(std::int64_t process, const std::byte* source, std::byte* target) const {
  const std::int64_t run = copy_.run_bytes();
  std::vector<iovec> local;
  std::vector<iovec> remote;
  for (std::int64_t done = 0; done < bytes();) {
    local.clear();
    remote.clear();
    for (std::int64_t at = done; at < bytes() && local.size() < most_parts;) {
      const std::int64_t size = run - at % run;
      local.push_back(part_at(target, place_in_tile(target_, box_, element_size_, at), size));
      remote.push_back(part_at(source, place_in_tile(source_, box_, element_size_, at), size));
      at += size;
    }
    done += read_parts(process, local, remote);
  }
}

// Runs that are long in the source and short in the target are unpacked.
void HostRead::read_pieces(std::int64_t process, const std::byte* source, std::byte* target,
                           std::span<std::byte> staging) const {
  const std::int64_t piece = std::min(slab_bytes, static_cast<std::int64_t>(staging.size()));
  std::vector<iovec> remote;
  for (std::int64_t done = 0; done < bytes();) {
    remote.clear();
    const std::int64_t end = std::min(bytes(), done + piece);
    std::int64_t at = done;
    while (at < end && remote.size() < most_parts) {
      const std::int64_t size = std::min(run_ - at % run_, end - at);
      remote.push_back(part_at(source, place_in_tile(source_, box_, element_size_, at), size));
      at += size;
    }
    const std::int64_t read = read_parts(process, {part_at(staging.data(), 0, at - done)}, remote);
    packing_.unpack(staging.data(), {done, done + read}, target);
    done += read;
  }
}

void HostRead::read_slabs(std::int64_t process, const std::byte* source, std::byte* target,
                          std::span<std::byte> staging) const {
  const std::int64_t most_bytes = std::min(slab_bytes, static_cast<std::int64_t>(staging.size()));
  const SlabCut cut = cut_into_slabs(source_, box_, element_size_, most_bytes);
  Box slab = source_;
  const std::function<void(std::size_t)> read_from = [&](std::size_t dimension) {
    const std::int64_t rows = dimension == cut.dimension ? cut.rows : 1;
    for (std::int64_t lo = box_.lo[dimension]; lo < box_.hi[dimension]; lo += rows) {
      slab.lo[dimension] = lo;
      slab.hi[dimension] = std::min(lo + rows, box_.hi[dimension]);
      if (dimension < cut.dimension) {
        read_from(dimension + 1);
        continue;
      }
      const std::int64_t size = volume(slab) * element_size_;
      const std::int64_t place = place_in_tile(source_, slab, element_size_, 0);
      for (std::int64_t done = 0; done < size;) {
        done += read_parts(process, {part_at(staging.data(), done, size - done)},
                           {part_at(source, place + done, size - done)});
      }
      BoxCopy(slab, target_, *intersect(slab, box_), element_size_).run(staging.data(), target);
    }
  };
  read_from(0);
}

}  // namespace retile::mpi
