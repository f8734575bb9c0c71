#include "retile/engines/mpi/host.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "retile/copies/host_read.h"

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

std::int64_t random_cookie() {
  std::random_device device;
  return static_cast<std::int64_t>((std::uint64_t{device()} << 32U) | device());
}

// That some member may run on; 0 if the system does not tell.
int count_cores(const Communicator& team) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) CPU_ZERO(&cores);
  check(MPI_Allreduce(MPI_IN_PLACE, &cores, sizeof cores, MPI_BYTE, MPI_BOR, team.get()), "MPI_Allreduce");
  return CPU_COUNT(&cores);
}

}  // namespace

Host::Host(const Communicator& world, const MpiOptions& options)
    : reading_(options.reading),
      staging_bytes_(options.staging_bytes),
      team_(make_team(world, options.hosts)),
      members_(static_cast<std::size_t>(world.size())) {
  // All members decide alike, and then all ranks: those of a host without shared memory are split off one by one.
  const bool is_open = team_.size() == 1 || open_arenas();
  if (team_.least(is_open ? 1 : 0) == 0) arenas_.clear();
  for (const std::shared_ptr<Arena>& arena : arenas_) arena->close_descriptor();
  const bool is_alone = arenas_.empty();
  const std::int64_t number = is_alone ? world.rank() : team_.least(world.rank());
  Communicator team = world.split(static_cast<int>(number), world.rank());
  team_ = std::move(team);
  numbers_ = gathered(world, number);
  int next = 0;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    if (numbers_[rank] == number) members_[rank] = next++;
  }
  is_crowded_ = count_cores(team_) < team_.size();
  may_read_ = is_shared() && find_whether_reading_is_allowed();
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

// Each member tries its neighbour; all find alike.
bool Host::find_whether_reading_is_allowed() const {
  const std::byte mine{1};
  std::byte read{0};
  const auto next = static_cast<std::size_t>((team_.rank() + 1) % team_.size());
  const std::vector<std::int64_t> addresses = gathered(team_, reinterpret_cast<std::intptr_t>(&mine));
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* source = reinterpret_cast<const std::byte*>(addresses[next]);
  const bool may_read = reading_ != Reading::never && read_memory(processes_[next], source, &read, 1, 1);
  return team_.least(may_read && read == mine ? 1 : 0) == 1;
}

Buffer Host::allocate(std::size_t size) const {
  return is_shared() ? Arena::allocate(arenas_[static_cast<std::size_t>(team_.rank())], size) : Buffer(size);
}

bool Host::give_back(std::byte* pages, std::size_t bytes) { return madvise(pages, bytes, MADV_REMOVE) == 0; }

bool Host::sees(const std::byte* address) const { return !is_shared() || shared_offset(address).has_value(); }

bool Host::reads(std::int64_t run_bytes) const {
  if (!may_read_ || run_bytes < least_read_run) return false;
  if (reading_ == Reading::always) return true;
  if (!shortest_read_run_) shortest_read_run_ = shortest_read_run(staging_bytes_ / 2);
  return run_bytes >= *shortest_read_run_;
}

}  // namespace retile::mpi
