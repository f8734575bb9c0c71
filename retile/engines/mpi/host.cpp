#include "retile/engines/mpi/host.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>

#include "retile/engines/mpi/host_read.h"

namespace retile::mpi {
namespace {

Communicator make_team(const Communicator& world, HostView view) {
  return view == HostView::detected ? world.split_by_host() : world.split(world.rank(), 0);
}

std::vector<std::int64_t> gathered(const Communicator& team, std::int64_t value) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(team.size()));
  team.gather(value, all);
  return all;
}

constexpr std::int64_t trial_bytes = 4 << 20;  // beyond a core's own cache, as tiles are

template <typename Action>
std::int64_t duration_of(Action action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
}

std::int64_t random_cookie() {
  std::random_device device;
  return static_cast<std::int64_t>((std::uint64_t{device()} << 32U) | device());
}

}  // namespace

Host::Host(const Communicator& world, HostView view, Reading reading)
    : team_(make_team(world, view)), members_(static_cast<std::size_t>(world.size())) {
  // All members decide alike, and then all ranks: those of a host without shared memory are split off one by one.
  const bool is_open = team_.size() == 1 || open_arenas();
  if (team_.least(is_open ? 1 : 0) == 0) arenas_.clear();
  const bool is_alone = arenas_.empty();
  const std::int64_t number = is_alone ? world.rank() : team_.least(world.rank());
  Communicator team = world.split(static_cast<int>(number), world.rank());
  team_ = std::move(team);
  numbers_ = gathered(world, number);
  int next = 0;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (numbers_[rank] == number) members_[rank] = next++;
  }
  reads_ = is_shared() && find_whether_reading_pays(reading);
}

bool Host::open_arenas() {
  const std::size_t size = Arena::usual_size(team_.size());
  const std::int64_t cookie = random_cookie();
  const std::shared_ptr<Arena> mine = Arena::make(size, static_cast<std::uint64_t>(cookie));
  processes_ = gathered(team_, getpid());
  const std::vector<std::int64_t> descriptors = gathered(team_, mine == nullptr ? -1 : mine->descriptor());
  const std::vector<std::int64_t> cookies = gathered(team_, cookie);
  arenas_.resize(processes_.size());
  for (std::size_t i = 0; i < arenas_.size(); ++i) {
    const bool is_mine = static_cast<int>(i) == team_.rank();
    arenas_[i] = is_mine ? mine
                         : Arena::open(processes_[i], static_cast<int>(descriptors[i]), size,
                                       static_cast<std::uint64_t>(cookies[i]));
  }
  return std::find(arenas_.begin(), arenas_.end(), nullptr) == arenas_.end();
}

// All members read at once, as they would in a run. Reading saves a copy, but the system may be slow at it, or refuse:
// the alternative is two copies through memory that stays in the cache.
bool Host::find_whether_reading_pays(Reading reading) const {
  std::vector<std::byte> mine(trial_bytes, std::byte{1});
  std::vector<std::byte> room(trial_bytes);
  std::vector<std::byte> staging(trial_bytes / 16);
  const auto next = static_cast<std::size_t>((team_.rank() + 1) % team_.size());
  const std::vector<std::int64_t> addresses = gathered(team_, reinterpret_cast<std::intptr_t>(mine.data()));
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* source = reinterpret_cast<const std::byte*>(addresses[next]);
  bool can_read = true;
  std::int64_t times[] = {INT64_MAX, INT64_MAX};  // nanoseconds: of reading, of copying twice
  for (int i = 0; i < 3; ++i) {
    times[0] = std::min(times[0], duration_of([&] {
                          can_read = can_read && read_memory(processes_[next], source, room.data(), trial_bytes);
                        }));
    times[1] = std::min(times[1], duration_of([&] {
                          for (std::size_t done = 0; done < room.size(); done += staging.size()) {
                            std::memcpy(staging.data(), mine.data() + done, staging.size());
                            std::memcpy(room.data() + done, staging.data(), staging.size());
                          }
                        }));
  }
  team_.most(times);  // after this, nobody reads `mine` any more
  const bool pays = reading == Reading::always || (reading == Reading::measured && times[0] < times[1]);
  return team_.least(can_read && pays ? 1 : 0) == 1;
}

Buffer Host::allocate(std::size_t size) const {
  return is_shared() ? Arena::allocate(arenas_[static_cast<std::size_t>(team_.rank())], size) : Buffer(size);
}

bool Host::give_back(std::byte* pages, std::size_t bytes) { return madvise(pages, bytes, MADV_REMOVE) == 0; }

bool Host::sees(const std::byte* address) const {
  return !is_shared() || arena(team_.rank()).offset_of(address).has_value();
}

void Host::publish(std::span<const std::byte* const> tiles) {
  ++round_;
  if (!is_shared()) return;
  Arena& mine = arena(team_.rank());
  const std::size_t bytes = tiles.size() * sizeof(TileAddress);
  if (table_.size() < bytes) {
    table_ = allocate(bytes);
    mine.header().table.store(*mine.offset_of(table_.data()), std::memory_order_relaxed);
  }
  auto* addresses = reinterpret_cast<TileAddress*>(table_.data());
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    addresses[i] = {mine.offset_of(tiles[i]).value_or(0), reinterpret_cast<std::uintptr_t>(tiles[i])};
  }
  mine.header().published.store(round_, std::memory_order_release);
}

bool Host::is_ready(int member) const {
  return arena(member).header().published.load(std::memory_order_acquire) >= round_;
}

const Host::TileAddress& Host::address(int member, std::size_t slot) const {
  const std::uint64_t table = arena(member).header().table.load(std::memory_order_relaxed);
  return reinterpret_cast<const TileAddress*>(arena(member).at(table))[slot];
}

const std::byte* Host::mapped_tile(int member, std::size_t slot) const {
  return shared_memory(member, address(member, slot).offset);
}

const std::byte* Host::remote_tile(int member, std::size_t slot) const {
  return reinterpret_cast<const std::byte*>(address(member, slot).remote);  // NOLINT(performance-no-int-to-ptr)
}

void Host::finish() {
  if (is_shared()) arena(team_.rank()).header().finished.store(round_, std::memory_order_release);
}

bool Host::is_finished(int member) const {
  return arena(member).header().finished.load(std::memory_order_acquire) >= round_;
}

}  // namespace retile::mpi
