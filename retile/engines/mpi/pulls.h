// Pulls: what a rank takes from tiles that it can reach, its own and those of other ranks of its host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "retile/copies/copy.h"
#include "retile/engines/backend.h"
#include "retile/engines/mpi/lanes.h"
#include "retile/engines/mpi/near_lanes.h"
#include "retile/schedule/streams.h"

namespace retile::mpi {

// Pieces that a rank copies or reads itself in a stage. An execution does one part at a time, so that messages are
// looked at in between.
class Pulls {
 public:
  Pulls(NearReceiver& receiver, const PackedStreams& packed, Stores stores)
      : receiver_(receiver), packed_(packed), stores_(stores) {}

  // Streams from one rank, at a distance: from a lane of the receiver's, or from this rank's own tiles.
  void add(std::optional<std::size_t> lane, int distance, std::span<const std::size_t> streams);

  void start(const TilePointers& tiles);
  // Pulls some of the first list whose tiles are there. False if none is.
  bool advance();
  bool is_done() const { return first_ == lists_.size(); }

 private:
  struct Pull {
    std::size_t piece = 0;  // of the streams
    std::size_t from_tile = 0;
    std::size_t to_tile = 0;
  };
  // Pieces of one array from the tiles of one rank.
  struct List {
    std::uint32_t array = 0;
    int distance = 0;
    std::optional<std::size_t> lane;
    std::vector<Pull> pulls;
    // The execution.
    std::size_t next = 0;   // pull
    std::int64_t done = 0;  // bytes of it
  };

  // Nothing as long as the sender has not said how the list comes.
  std::optional<Way> way_of(const List& list) const { return list.lane ? receiver_.way(*list.lane) : Way::copied; }
  std::int64_t pull(List& list, Way way) const;
  void finish(const List& list);

  NearReceiver& receiver_;
  const PackedStreams& packed_;
  const Stores stores_;
  std::vector<List> lists_;              // array by array, because neighbours in memory share caches and pages
  std::vector<std::size_t> open_lists_;  // by lane
  TilePointers tiles_;
  std::size_t first_ = 0;  // list of which something may be left to pull
};

}  // namespace retile::mpi
