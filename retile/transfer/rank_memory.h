// Memory of one rank in a transfer: where its boxes lie.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "retile/base/sentences.h"
#include "retile/transfer/rank_transfer.h"

namespace retile::transfer {

// A box in memory, as it was given or as the rank's placement has it.
struct Room {
  Box box;
  std::byte* first;
  Strides strides;
  ElementType stored;
  const BlockScales* scales;
};

class RankMemory {
 public:
  // Throws RuntimeError with all that is wrong, as RankTransfer does.
  RankMemory(const MessagePlan& plan, Device rank, const std::vector<TileMemory>& memory);

  // The one that the box lies in.
  const Room& room_around(std::size_t array, TransferSide side, const Box& box) const;

 private:
  const std::string& name_of(std::size_t array) const;
  const std::vector<Room>& rooms(std::size_t array, TransferSide side) const;
  const Room* find_room(std::size_t array, TransferSide side, const Box& box) const;
  const std::vector<Part>& parts_of(std::size_t kind, TransferSide side);
  void add_rooms(const TileMemory& memory);
  void require_rooms();
  void find_overlaps();

  const MessagePlan& plan_;
  const Device rank_;
  Sentences faults_;
  std::map<std::pair<std::size_t, TransferSide>, std::vector<Part>> parts_;  // by kind
  std::vector<std::vector<Room>> sources_;                                   // by array
  std::vector<std::vector<Room>> targets_;
};

}  // namespace retile::transfer
