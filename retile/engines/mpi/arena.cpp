#include "retile/engines/mpi/arena.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "retile/base/error.h"
#include "retile/memory/buffer.h"

namespace retile::mpi {
namespace {

// For all arenas of an engine that a process maps: a sixteenth of what there is, so that engines can be many.
constexpr std::size_t address_space = std::size_t{1} << 43U;

std::size_t page_size() { return static_cast<std::size_t>(page_bytes()); }

std::size_t whole_pages(std::size_t size) { return (size + page_size() - 1) / page_size() * page_size(); }

// A file beyond the limit would end the process with a signal.
bool files_may_be_large() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

}  // namespace

std::size_t Arena::usual_size(int processes) {
  const auto memory = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * page_size();
  return whole_pages(std::min(memory, address_space / static_cast<std::size_t>(processes)));
}

Arena::Arena(int descriptor, std::byte* base, std::size_t size) : descriptor_(descriptor), base_(base), size_(size) {}

Arena::~Arena() {
  munmap(base_, size_);
  close_descriptor();
}

void Arena::close_descriptor() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

std::shared_ptr<Arena> Arena::map(int descriptor, std::size_t size) {
  if (descriptor < 0) return nullptr;
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (base == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<Arena>(new Arena(descriptor, static_cast<std::byte*>(base), size));
}

std::shared_ptr<Arena> Arena::make(std::size_t size, std::uint64_t cookie) {
  const int descriptor = files_may_be_large() ? memfd_create("retile", MFD_CLOEXEC) : -1;
  if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    close(descriptor);
    return nullptr;
  }
  std::shared_ptr<Arena> arena = map(descriptor, size);
  if (arena == nullptr) return nullptr;
  std::memcpy(arena->base_, &cookie, sizeof cookie);
  const std::size_t first = page_size();
  arena->holes_.emplace(first, size - first);
  return arena;
}

std::shared_ptr<Arena> Arena::open(std::int64_t process, int descriptor, std::size_t size, std::uint64_t cookie) {
  const std::string path = fmt::format("/proc/{}/fd/{}", process, descriptor);
  const int mine = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  // Where ranks do not see each other's processes, the number may be another's; a smaller file must not be read.
  if (mine >= 0 && lseek(mine, 0, SEEK_END) != static_cast<off_t>(size)) {
    close(mine);
    return nullptr;
  }
  std::shared_ptr<Arena> arena = map(mine, size);
  const bool is_it = arena != nullptr && std::memcmp(arena->base_, &cookie, sizeof cookie) == 0;
  return is_it ? arena : nullptr;
}

std::optional<std::uint64_t> Arena::offset_of(const std::byte* address) const {
  if (std::less<>()(address, base_) || !std::less<>()(address, base_ + size_)) return std::nullopt;
  return static_cast<std::uint64_t>(address - base_);
}

// What keeps a buffer's memory.
struct Arena::Piece {
  const std::shared_ptr<Arena> arena;
  Ranges::node_type range;

  explicit Piece(std::shared_ptr<Arena> of) : arena(std::move(of)) {}
  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;
  ~Piece() {
    if (!range.empty()) arena->give_back(std::move(range));
  }
};

Buffer Arena::allocate(const std::shared_ptr<Arena>& arena, std::size_t size) {
  const auto piece = std::make_shared<Piece>(arena);
  piece->range = arena->take(size);
  if (piece->range.empty()) throw RuntimeError(fmt::format("no memory for a tile of {} bytes", size));
  return {arena->at(piece->range.key()), size, piece};
}

Arena::Ranges::node_type Arena::take(std::size_t size) {
  if (size > size_) return {};
  const std::size_t pages = std::max(whole_pages(size), page_size());
  Ranges taken{{0, pages}};
  const std::lock_guard lock(mutex_);
  const auto hole =
      std::find_if(holes_.begin(), holes_.end(), [&](const auto& entry) { return entry.second >= pages; });
  if (hole == holes_.end()) return {};
  Ranges::node_type rest = holes_.extract(hole);
  if (rest.mapped() == pages) return rest;
  Ranges::node_type piece = taken.extract(taken.begin());
  piece.key() = rest.key();
  rest.key() += pages;
  rest.mapped() -= pages;
  holes_.insert(std::move(rest));
  return piece;
}

void Arena::give_back(Ranges::node_type piece) {
  if (!keeps_pages_) madvise(at(piece.key()), piece.mapped(), MADV_REMOVE);
  const std::lock_guard lock(mutex_);
  auto next = holes_.upper_bound(piece.key());
  if (next != holes_.end() && next->first == piece.key() + piece.mapped()) {
    piece.mapped() += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == piece.key()) {
      before->second += piece.mapped();
      return;
    }
  }
  holes_.insert(next, std::move(piece));
}

}  // namespace retile::mpi
