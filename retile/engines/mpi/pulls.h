// Pulls: what a rank takes from tiles that it can reach, its own and those of other ranks of its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "retile/copies/copy.h"
#include "retile/engines/backend.h"
#include "retile/engines/mpi/host.h"
#include "retile/engines/mpi/host_read.h"
#include "retile/engines/mpi/lanes.h"
#include "retile/schedule/streams.h"

namespace retile::mpi {

// How a stream comes to a rank.
enum class Way {
  copied,   // from a tile that it sees
  read,     // from another rank's own memory, through the system
  offered,  // from another rank's staging
  sent,     // as messages
};

// Pieces of one array from the tiles of one rank.
struct PullList {
  struct Pull {
    std::size_t piece = 0;  // of the streams
    std::size_t from_tile = 0;
    std::size_t to_tile = 0;
  };
  std::optional<int> member;  // nothing: this rank's own
  Way way = Way::copied;
  std::vector<Pull> pulls;
};

// What a rank pulls in a stage.
struct PullWork {
  std::vector<PullList> lists;  // array by array, because neighbours in memory share caches and pages
  std::vector<int> readers;     // members that pull from this rank's tiles
  Stores stores = Stores::cached;
};

// One execution of them, a part at a time: messages are looked at in between.
class PullRun {
 public:
  PullRun(const PullWork& work, const Streams& streams, const std::vector<BoxCopy>& copies, const Host& host,
          const TilePointers& tiles)
      : work_(work), streams_(streams), copies_(copies), host_(host), tiles_(tiles), progress_(work.lists.size()) {}

  bool is_done() const { return first_ == progress_.size(); }
  // Pulls some of the first list whose tiles are there. False if none is.
  bool advance();

 private:
  struct Progress {
    std::size_t pull = 0;
    std::int64_t done = 0;  // bytes of it
  };

  bool is_finished(std::size_t list) const { return progress_[list].pull == work_.lists[list].pulls.size(); }
  std::int64_t pull(const PullList& list, Progress& progress) const;

  const PullWork& work_;
  const Streams& streams_;
  const std::vector<BoxCopy>& copies_;  // by shape
  const Host& host_;
  const TilePointers tiles_;
  std::vector<Progress> progress_;  // by list
  std::size_t first_ = 0;           // list that is not finished
};

}  // namespace retile::mpi
