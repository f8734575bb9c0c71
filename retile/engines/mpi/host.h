// The ranks of one host: how they find each other, and the memory that they share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  Host(const Communicator& world, const MpiOptions& options);

  int member_count() const { return team_.size(); }
  bool is_shared() const { return member_count() > 1; }
  // Nothing for ranks of other hosts.
  std::optional<int> member(int rank) const { return members_[static_cast<std::size_t>(rank)]; }
  // The host of each rank, as a number that ranks of one host share.
  const std::vector<std::int64_t>& numbers() const { return numbers_; }
  const Communicator& team() const { return team_; }
  // Whether there are more members than cores for them.
  bool is_crowded() const { return is_crowded_; }

  // Memory that the other members see, where there are some. Throws RuntimeError where there is none left.
  Buffer allocate(std::size_t size) const;
  // Whole pages of that memory, before it goes.
  static bool give_back(std::byte* pages, std::size_t bytes);
  // Other members may still look at this rank's memory, when it is freed and afterwards.
  void keep_pages() const {
    if (is_shared()) arena(team_.rank()).keep_pages();
  }
  // Whether all members see what is at an address of this rank's.
  bool sees(const std::byte* address) const;
  // The offset of an address of this rank in its shared memory; nothing where it is not in it.
  std::optional<std::uint64_t> shared_offset(const std::byte* address) const {
    return arena(team_.rank()).offset_of(address);
  }
  // A member's shared memory, as this rank sees it.
  std::byte* shared_memory(int member, std::uint64_t offset) const { return arena(member).at(offset); }

  // Whether members read runs of such lengths from each other's own memory through the system: where they may, and it
  // is faster than packing and unpacking them, which the first call finds out by a trial.
  bool reads(std::int64_t run_bytes) const;
  std::int64_t process(int member) const { return processes_[static_cast<std::size_t>(member)]; }

 private:
  bool open_arenas();
  bool find_whether_reading_is_allowed() const;
  Arena& arena(int member) const { return *arenas_[static_cast<std::size_t>(member)]; }

  const Reading reading_;
  const std::int64_t staging_bytes_;
  Communicator team_;
  std::vector<std::int64_t> numbers_;
  std::vector<std::optional<int>> members_;     // by rank
  std::vector<std::int64_t> processes_;         // by member
  std::vector<std::shared_ptr<Arena>> arenas_;  // by member; none where the rank is alone
  bool is_crowded_ = false;
  bool may_read_ = false;
  mutable std::optional<std::int64_t> shortest_read_run_;
};

}  // namespace retile::mpi
