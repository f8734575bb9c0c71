// Headers of messages, by which a receiver knows that a message is the one that is due.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace retile::transfer {

// The contents after a header. `all` and `unchanged` differ in every bit, so that no damage of fewer makes one of the
// other: what is taken for unchanged is not looked at.
enum class Content : std::uint32_t { all = 0x5A5A5A5AU, unchanged = 0xA5A5A5A5U, offer = 0x3C3C3C3CU };

struct MessageHeader {
  std::uint64_t fingerprint = 0;
  std::int64_t round = 0;
  std::int64_t bytes = 0;  // of the message without its header
  std::int32_t from = 0;
  std::int32_t to = 0;
  Content content = Content::all;
  std::uint32_t checksum = 0;
};
constexpr auto header_bytes = static_cast<std::int64_t>(sizeof(MessageHeader));
static_assert(sizeof(MessageHeader) == 40, "no bytes lie between the fields, so that every bit of a header is checked");

// The message with which a sender begins a phase to a receiver that can read its memory: its tiles are as they are to
// be sent.
struct ReadOffer {
  MessageHeader header;       // of the first round of the phase; `bytes` are all that the receiver gets in it
  std::uint64_t is_read = 0;  // 1: the receiver reads; 0: messages follow
  std::int64_t table = 0;     // the address of the table of the pieces in the sender's memory
  std::int64_t words = 0;     // of the table: for each piece the address of its first element, then its strides
  std::uint64_t version = 0;  // of the table; no two tables of a process have the same
  std::int64_t process = 0;   // the number of the sender, which a restart or a fork changes
};

// The fault of a header that came where another one was expected; empty where there is none.
inline std::string fault_of(const MessageHeader& header, const MessageHeader& due) {
  if (header.fingerprint != due.fingerprint) {
    return fmt::format("rank {} has another transfer than rank {}, or its message was damaged", due.from, due.to);
  }
  if (header.from != due.from || header.to != due.to) {
    return fmt::format("a message from rank {} to rank {} came from rank {} to rank {}", header.from, header.to,
                       due.from, due.to);
  }
  if (header.round != due.round) {
    return fmt::format("rank {} sent round {} to rank {}, and round {} is due", due.from, header.round, due.to,
                       due.round);
  }
  const bool is_known =
      header.content == due.content || (due.content == Content::all && header.content == Content::unchanged);
  if (header.bytes != due.bytes || !is_known) {
    return fmt::format("the header of round {} from rank {} to rank {} was damaged", due.round, due.from, due.to);
  }
  return "";
}

}  // namespace retile::transfer
