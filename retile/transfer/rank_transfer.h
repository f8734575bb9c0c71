// A transfer over messages that the caller carries: what one rank packs, sends, receives and unpacks.
//
//   const MessagePlan plan(kinds, arrays, ranks, {.max_bytes = 64 << 20});  // the same on every rank
//   RankTransfer transfer(plan, rank, memory);
//   transfer.copy_kept();
//   for (std::int64_t round = 0; round < transfer.rounds(); ++round) {
//     // start to receive transfer.received(round);
//     for (const Message& message : transfer.sent(round)) { transfer.pack(round, message.peer); /* send it */ }
//     for (const Message& message : transfer.received(round)) { /* wait */ transfer.unpack(round, message.peer); }
//   }
//
// Every message begins with a header that names the plan and the round, so that a rank with another plan is told.
//
// Ranks whose processes can read each other's memory need no messages where bytes are sent as they lie:
//
//   RankTransfer transfer(plan, rank, memory, staging, readable);
//   transfer.set_lenders(round, ...);  // of each phase, from the readers() of all ranks: who lends this rank its
//   memory
//   // before the first round of a phase:
//   // start to receive transfer.awaited_offers(round);
//   for (const Message& offer : transfer.make_offers(round)) { /* send it */ }
//   // wait for each that is awaited, and transfer.accept_offer(round, peer);
//   // in each round, beside its messages: transfer.read(round);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "retile/copies/block_scales.h"
#include "retile/memory/tile_layout.h"
#include "retile/transfer/message_plan.h"
#include "retile/types/element_type.h"

namespace retile::transfer {

enum class TransferSide { source, target };

// Memory of a rank for a box of an array.
struct TileMemory {
  std::size_t array = 0;
  TransferSide side = TransferSide::source;
  std::byte* data = nullptr;  // the first element
  Strides strides;            // none: packed, row-major
  std::optional<Box> box;     // none: all boxes of the rank, one after the other; then there are strides of one alone
  // The type of a source's elements, which are converted while they are packed. none: the array's.
  std::optional<ElementType> stored;
  // Scales of the source's blocks, where it is converted to f8e4m3fn. They are of the whole box, outlive the transfer
  // and are finished before anything is packed.
  const BlockScales* scales = nullptr;
};

// Memory for messages of transfers that do not run at the same time: as much as the largest of them needs.
class Staging {
 public:
  std::byte* data() const { return memory_.get(); }
  // Makes room for this many bytes. Earlier contents are lost.
  void reserve(std::int64_t bytes);

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::int64_t bytes_ = 0;
};

// Ranks that can read this rank's memory, and whose memory it can read. None: everything is sent in messages.
struct ReadableRanks {
  std::vector<std::int64_t> processes = {};  // by rank; 0 for the others
  // Bytes that the parts of what is read have at least, on average. What is scattered more is packed.
  std::int64_t least_part = 1 << 10;
};

// A message in the rank's staging, its header included. The memory is that of every second round.
struct Message {
  Device peer = 0;
  std::span<std::byte> bytes;
};

class RankTransfer {
 public:
  // Throws RuntimeError with a sentence for each box without memory, for memory whose elements share bytes, for targets
  // that overlap other memory, and for elements that cannot be converted.
  RankTransfer(const MessagePlan& plan, Device rank, const std::vector<TileMemory>& memory,
               std::shared_ptr<Staging> staging = std::make_shared<Staging>(), ReadableRanks readable = {});
  RankTransfer(const RankTransfer&) = delete;
  RankTransfer& operator=(const RankTransfer&) = delete;
  RankTransfer(RankTransfer&&) noexcept;
  RankTransfer& operator=(RankTransfer&&) noexcept;
  ~RankTransfer();

  std::int64_t rounds() const;
  // The first round that sends from target tiles, which are all received before: what hosts pass on. rounds() if none
  // does.
  std::int64_t first_passed_on() const;
  // Bytes of staging that the transfer needs; after offers, that this execution of it needs.
  std::int64_t staged_bytes() const;
  // By array: the round after which the rank has all of it; -1 if it receives nothing of it.
  std::vector<std::int64_t> last_rounds() const;

  // Nearest peers first, in cyclic order of ranks; none of them empty.
  std::vector<Message> sent(std::int64_t round) const;
  std::vector<Message> received(std::int64_t round) const;

  // Copies what the rank holds and wants. Before the first round that is passed on.
  void copy_kept() const;
  // The message is sent before the round after the next one is packed. Returns how many bytes of it are to be sent:
  // all; with `only_changed`, the header alone if the same bytes were packed for this round last time.
  std::int64_t pack(std::int64_t round, Device peer, bool only_changed = false);
  // Throws RuntimeError if the message is not the one that is due, or its checksum is wrong. Targets are then
  // undefined. Returns the bytes of elements that came.
  std::int64_t unpack(std::int64_t round, Device peer) const;

  // The ranks that read this rank's memory in the phase of a round: those to which all goes as it lies, in long runs.
  std::vector<Device> readers(std::int64_t round) const;
  // The ranks that have this rank among their readers. Before the first offer.
  void set_lenders(std::int64_t round, const std::vector<Device>& lenders);
  // The offers to readers. What is offered is left as it is until all ranks have finished. With `only_changed`, offers
  // say that messages follow.
  std::vector<Message> make_offers(std::int64_t round, bool only_changed = false);
  std::vector<Message> awaited_offers(std::int64_t round);
  // Throws RuntimeError if the offer is not the one that is due, or the system refuses to read. Nothing more is then
  // expected from that rank in the phase.
  void accept_offer(std::int64_t round, Device peer);
  // Reads this round's bytes from all ranks that offered theirs. Returns how many. Throws RuntimeError where the system
  // refuses; targets are then undefined.
  std::int64_t read(std::int64_t round) const;

  // The next messages are packed as if nothing had been packed before.
  void forget_sent();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retile::transfer
