// Pieces of a lane that its receiver reads from the sender's own memory. The sender lists where they lie in a table,
// which the receiver reads like the pieces themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "retile/copies/copy.h"
#include "retile/memory/tile_layout.h"
#include "retile/transfer/message_header.h"

namespace retile::transfer {

// How a piece lies in memory.
struct PieceForm {
  Shape extent;
  Strides strides;  // bytes
  std::int64_t element_size = 1;

  // How many parts the system reads it in.
  std::int64_t part_count() const;
  // The copy from a piece of the same extent, to this one.
  BoxCopy copy_from(const Strides& from) const;
};

// The sender's table, for each piece the address of its first element and then its strides.
class LentTable {
 public:
  LentTable();
  void add(const std::byte* first, const Strides& strides);
  // Says where the table is. It stays there until another piece is added.
  void describe(ReadOffer& offer) const;

 private:
  std::vector<std::int64_t> words_;
  std::uint64_t version_;
};

// The receiver's side of such a lane.
class LentPieces {
 public:
  explicit LentPieces(std::int64_t process) : process_(process) {}

  // A piece as it lies in the receiver's memory. All of them are added, in the order of the table, before the first
  // offer.
  void add(const PieceForm& form) { forms_.push_back(&form); }
  // Reads the offer's table if it is another one than before. Throws RuntimeError.
  void accept(const ReadOffer& offer);
  // A range of a piece; ranges that make up all of it leave out nothing, in an order of their own. Throws RuntimeError.
  void read(std::size_t piece, ByteRange range, std::byte* target, Stores stores) const;

 private:
  struct Lent {
    const std::byte* first = nullptr;  // in the sender's memory
    std::size_t copy = 0;
  };

  bool is_own_process() const;

  std::int64_t process_;
  std::vector<const PieceForm*> forms_;
  std::uint64_t version_ = 0;  // 0: none
  std::vector<Lent> pieces_;
  std::vector<BoxCopy> copies_;
};

}  // namespace retile::transfer
