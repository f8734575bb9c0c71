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
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/types/element_type.h"
#include "retile/types/placement.h"

namespace retile::transfer {

// What many arrays have in common. Boxes of one side are equal or disjoint, on as many devices as there are ranks.
struct ArrayKind {
  Placement source;
  Placement target;
  ElementType element_type = ElementType::f32;
};

struct KindOfArray {
  std::string name;
  std::size_t kind = 0;
};

struct MessageOptions {
  std::int64_t max_bytes = std::int64_t{256} << 20U;         // that a rank may stage, headers included
  std::int64_t most_message_bytes = std::int64_t{4} << 20U;  // where the cap allows more
  std::vector<std::int64_t> hosts = {};                      // a number by rank, as in Hosts; none: one host
  bool has_checksums = false;                                // of every message
};

// Who sends what to whom, and in which round. Executions share it.
class MessagePlan {
 public:
  // Throws InputError if an element that some rank wants is held by none, or the cap is too small.
  MessagePlan(std::vector<ArrayKind> kinds, std::vector<KindOfArray> arrays, std::int64_t ranks,
              const MessageOptions& options = {});

  // Equal plans of equal arrays have equal numbers, and others have different ones, almost certainly.
  std::uint64_t fingerprint() const;
  std::int64_t rounds() const;
  // Bytes of one rank.
  std::int64_t sent_bytes(Device rank) const;
  std::int64_t received_bytes(Device rank) const;
  std::int64_t staged_bytes(Device rank) const;
  // Several lines, as `retile transfer` prints them.
  std::string text() const;

 private:
  friend class RankTransfer;
  struct State;
  std::shared_ptr<const State> state_;
};

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
  RankTransfer(const MessagePlan& plan, Device rank, const std::vector<TileMemory>& memory);
  RankTransfer(RankTransfer&&) noexcept;
  RankTransfer& operator=(RankTransfer&&) noexcept;
  ~RankTransfer();

  std::int64_t rounds() const;
  // The first round that sends from target tiles, which are all received before: what hosts pass on. rounds() if none
  // does.
  std::int64_t first_passed_on() const;
  // Bytes of the staging, allocated once.
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
  // undefined.
  void unpack(std::int64_t round, Device peer) const;
  // The next messages are packed as if nothing had been packed before.
  void forget_sent();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retile::transfer
