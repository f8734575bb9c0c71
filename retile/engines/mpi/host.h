// The ranks of one host: how they find each other, offer each other tiles, and know when these were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "retile/engines/mpi/arena.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi_options.h"
#include "retile/memory/buffer.h"

namespace retile::mpi {

// A member is a rank of this rank's host, counted within the host.
class Host {
 public:
  // Collective. Ranks of a host that cannot share memory count as alone.
  Host(const Communicator& world, HostView view, Reading reading);

  int member_count() const { return team_.size(); }
  bool is_shared() const { return member_count() > 1; }
  // Nothing for ranks of other hosts.
  std::optional<int> member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  // By rank: a number that ranks of one host have in common.
  const std::vector<std::int64_t>& numbers() const { return numbers_; }
  const Communicator& team() const { return team_; }

  // Memory that the other members see, where there are some. Throws RuntimeError where there is none left.
  Buffer allocate(std::size_t size) const;
  // Whole pages of that memory, before it goes.
  static bool give_back(std::byte* pages, std::size_t bytes);
  // Whether all members see what is at an address of this rank's.
  bool sees(const std::byte* address) const;
  // Shared memory, as its owner names it to others and as this rank sees it.
  std::uint64_t shared_offset(const std::byte* address) const { return *arena(team_.rank()).offset_of(address); }
  const std::byte* shared_memory(int member, std::uint64_t offset) const { return arena(member).at(offset); }
  // Whether members read each other's own memory through the system.
  bool reads() const { return reads_; }
  std::int64_t process(int member) const { return processes_[static_cast<std::size_t>(member)]; }

  // Offers tiles to the other members, all of which call this at the same points of their runs. They stay readable
  // until all readers have called finish().
  void publish(std::span<const std::byte* const> tiles);
  // True where the member has published its tiles of this round, which are read then.
  bool is_ready(int member) const;
  // Where this rank sees a tile in the member's arena, and where the member itself sees it.
  const std::byte* mapped_tile(int member, std::size_t slot) const;
  const std::byte* remote_tile(int member, std::size_t slot) const;
  // This rank is done with the others' tiles of this round.
  void finish();
  bool is_finished(int member) const;

 private:
  struct TileAddress {
    std::uint64_t offset;  // in the arena, where it lies there
    std::uint64_t remote;  // in the owner's memory
  };

  bool open_arenas();
  bool find_whether_reading_pays(Reading reading) const;
  const TileAddress& address(int member, std::size_t slot) const;
  Arena& arena(int member) const { return *arenas_[static_cast<std::size_t>(member)]; }

  Communicator team_;
  std::vector<std::int64_t> numbers_;
  std::vector<std::optional<int>> members_;     // by rank
  std::vector<std::int64_t> processes_;         // by member
  std::vector<std::shared_ptr<Arena>> arenas_;  // by member; none where the rank is alone
  bool reads_ = false;
  std::uint64_t round_ = 0;  // how often this rank has published
  Buffer table_;
};

}  // namespace retile::mpi
