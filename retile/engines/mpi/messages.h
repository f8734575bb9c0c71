// Boxes between ranks as messages, in bounded pieces: packed while others are on their way, unpacked as they arrive.
// Between ranks of one host, a message says where its piece was packed, and the receiver unpacks it from there.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "retile/engines/copy.h"
#include "retile/engines/mpi/communicator.h"
#include "retile/engines/mpi/device_ranks.h"
#include "retile/engines/mpi/host.h"
#include "retile/engines/mpi/parcel.h"
#include "retile/engines/schedule.h"

namespace retile::mpi {

// The part of a tile of this rank's that a parcel is taken from or put into.
struct TilePart {
  std::size_t slot = 0;
  BoxPacking packing;
};

// A parcel as one of its two ranks sees it.
struct Letter {
  int peer;
  std::vector<TilePart> parts;  // one where it is sent; one per device where it is received
  std::int64_t bytes;
  std::int64_t piece_bytes;   // the same on both sides
  bool is_staged;             // pieces go through staging on this side
  std::optional<int> member;  // the peer within this host, where it sees the sender's staging
};

// How many messages are under way at once in each direction.
constexpr std::size_t window = 4;

// The most bytes of a piece that goes through staging: a window of them stays in a core's cache.
constexpr std::int64_t most_staged_bytes = 1 << 18;

// A box that is contiguous on both sides travels in pieces of this size, without staging: MPI counts with 32 bits.
constexpr std::int64_t most_message_bytes = 1 << 30;

// The piece that starts at a byte of so many.
ByteRange piece_at(std::int64_t begin, std::int64_t piece_bytes, std::int64_t bytes);

// What letters are made from: the tiles of a stage, and what staging both directions may have together.
struct LetterContext {
  const Stage& stage;
  const DeviceRanks& ranks;
  const Host& host;
  std::int64_t element_size;
  std::int64_t staging_bytes;
};

// Whether ranks of one host see each other's staging.
enum class StagingSight { shared, own };

Letter letter_to_send(const Parcel& parcel, StagingSight sight, const LetterContext& context);
Letter letter_to_receive(const Parcel& parcel, StagingSight sight, const LetterContext& context);

// All messages of a rank in a stage, in the order of their parcels. Worked out once, carried out by MessageRun.
struct Messages {
  std::vector<Letter> sent;
  std::vector<Letter> received;

  // The most bytes of a staged piece, which each place of both windows has room for; 0 where nothing is staged.
  std::int64_t staged_piece_bytes() const;
  std::int64_t staging_needed() const { return staged_piece_bytes() * static_cast<std::int64_t>(2 * window); }
};

// Letters are sent and received in an order that all ranks have in common, a window at a time. Nobody waits forever:
// of all pieces in the job that have not arrived, take the first one in that order. All pieces before it have arrived,
// so both its ranks have it in their windows, and it arrives.
class MessageRun {
 public:
  MessageRun(const Communicator& communicator, const Host& host, const Messages& messages,
             std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
             std::span<std::byte> staging);
  MessageRun(const MessageRun&) = delete;
  MessageRun& operator=(const MessageRun&) = delete;
  ~MessageRun();

  bool is_done() const;
  // Starts what can be started and takes in what has arrived. False where there was nothing to do.
  bool advance();

 private:
  // The pieces of one direction, each in its turn in one of the window's places.
  struct Lane {
    const std::vector<Letter>* letters;
    std::size_t letter = 0;   // of the next piece
    std::int64_t begin = 0;   // of the next piece
    std::size_t started = 0;  // pieces so far
    struct Place {
      const Letter* letter = nullptr;  // null: free
      ByteRange range;
    };
    Place places[window] = {};

    bool is_done() const;
    bool can_start() const;
    // Gives the next piece its place, and returns which.
    std::size_t start();
  };

  // Where the sender has packed a piece, for a receiver of its host. The sender's place is free again when it hears
  // from the receiver.
  struct Offer {
    std::uint64_t offset = 0;
    std::uint64_t place = 0;
  };

  std::byte* staged(std::size_t place) const;
  void send(std::size_t place);
  void send_offer(std::size_t place);
  void receive(std::size_t place);
  void take_in(std::size_t place);
  void unpack(const Letter& letter, ByteRange range, const std::byte* piece) const;

  const Communicator& communicator_;
  const Host& host_;
  std::span<const std::byte* const> sources_;
  std::span<std::byte* const> targets_;
  std::span<std::byte> staging_;
  std::size_t staged_piece_bytes_;
  Lane sending_;
  Lane receiving_;
  Offer offers_[2 * window];            // by place: sent, then received
  MPI_Request requests_[3 * window]{};  // by place: sending, then receiving, then the offers sent
};

}  // namespace retile::mpi
