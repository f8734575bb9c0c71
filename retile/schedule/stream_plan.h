// Plans of streams: who sends what of which array to whom, and in how many rounds, whatever the number of arrays.
//
// All that one device sends another is a stream of pieces, whatever the number of arrays. A round takes equally large
// parts of all streams, one message each; so sources drain and targets fill evenly, and what is staged is known
// exactly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "retile/plan/memory.h"
#include "retile/plan/senders.h"
#include "retile/schedule/cells.h"

namespace retile {

// While a round is on its way, the next one is packed and the one before is unpacked.
constexpr std::int64_t rounds_in_flight = 2;

// The most bytes of a message where the cap allows more: a core's cache holds those under way.
constexpr std::int64_t most_message_bytes = 256 << 10;

// The messages of a round from a device to other hosts share a link. More bytes under way would only fill its queues,
// and devices that finish first would free the link too late. Shorter messages would cost more than that.
constexpr std::int64_t most_crossing_bytes = 512 << 10;
constexpr std::int64_t least_crossing_message_bytes = 64 << 10;

// How what devices send each other is shared among holders, and cut into messages where the cap allows messages that
// long.
struct MessageForm {
  std::int64_t header_bytes = 0;                               // staged with each message
  std::int64_t most_bytes = most_message_bytes;                // of a message between devices of one host
  std::int64_t most_crossing = most_crossing_bytes;            // of a round, from a device to other hosts
  std::int64_t least_crossing = least_crossing_message_bytes;  // of a message to another host
  // The rate of the link out of each device's host. Hosts share what crosses in proportion. Empty: equally.
  std::vector<double> link_rates = {};
};

// The host of each device, as a number that devices of one host share. Empty: all devices are on one host.
using Hosts = std::vector<std::int64_t>;

// `count` hosts with equally many devices each, or nearly so, in the order of the devices.
Hosts even_hosts(std::int64_t devices, std::int64_t count);

// Bytes that one device holds, sends, receives and stages.
struct DeviceLoad {
  std::int64_t source = 0;  // tiles
  std::int64_t target = 0;
  std::int64_t sent = 0;
  std::int64_t received = 0;
  std::int64_t lacking = 0;  // bytes of its target that it does not hold: it receives at least these
  std::int64_t staging = 0;

  std::int64_t peak() const { return source + target + staging; }
};

class StreamPlan {
 public:
  // Arrays that are alike: one source, one target and one size of elements.
  struct ArrayClass {
    Placement source;
    Placement target;
    std::int64_t element_size = 1;
    std::vector<std::size_t> arrays;  // numbers
  };

  // A box of an array from a device that holds it to one that wants it.
  struct Piece {
    std::size_t array = 0;
    std::size_t array_class = 0;  // that array's
    Device from = 0;
    Device to = 0;
    Box box;
    StreamPhase phase = StreamPhase::from_sources;
  };

  // `sources` are kept or donated. Throws InputError if a device would stage more than `max_bytes` with the smallest
  // rounds and sources are kept (transfer/in_place.h says which caps are large enough if they are donated), or the
  // arrays' bytes do not fit in 63 bits.
  StreamPlan(std::vector<ArrayClass> classes, std::int64_t device_count, std::int64_t max_bytes, Hosts hosts,
             TileUse sources, MessageForm form = {});

  std::int64_t max_bytes() const { return max_bytes_; }
  TileUse sources() const { return sources_; }
  std::int64_t device_count() const { return static_cast<std::int64_t>(loads_.size()); }
  const std::vector<DeviceLoad>& loads() const { return loads_; }
  // A lower bound on what the busiest device sends, in any plan.
  std::int64_t sent_bound() const { return sent_bound_; }
  // Rounds of the streams from sources, or of those after them that pass on what came into a host.
  std::int64_t rounds(StreamPhase phase = StreamPhase::from_sources) const {
    return phase == StreamPhase::passed_on ? relay_rounds_ : rounds_;
  }
  bool has_relays() const { return relay_rounds_ > 0; }
  // The smallest cap that works: the busiest device stages a byte of each of its streams in a round.
  std::int64_t least_cap(StreamPhase phase) const;
  // Bytes that each device stages for streams that pass on.
  std::vector<std::int64_t> relay_staging() const {
    return staging_at(std::max<std::int64_t>(1, relay_rounds_), StreamPhase::passed_on);
  }
  // The number of messages: one per stream and round, empty ones not counted.
  std::int64_t messages() const;
  // Bytes that come into each host from others; one entry where all devices are on one.
  const std::vector<std::int64_t>& crossing() const { return crossing_; }

  // All that one device sends another. Both stage the largest part of it that a round takes.
  struct Stream {
    StreamPhase phase = StreamPhase::from_sources;
    Device from = 0;
    Device to = 0;
    std::int64_t bytes = 0;
  };
  // Streams from sources come first. Sorted by sender, then receiver; none goes from a device to itself.
  const std::vector<Stream>& streams() const { return streams_; }
  // The pieces of a stream in their order.
  void visit_pieces(const Stream& stream, const std::function<void(const Piece&)>& visit) const;
  // Pieces that the device holds already and wants: they are copied from its source tiles to its target tiles.
  void visit_kept(Device device, const std::function<void(const Piece&)>& visit) const;

  const std::vector<ArrayClass>& classes() const { return classes_; }
  std::size_t array_count() const;

 private:
  // A cell of all arrays of a class, as one device wants it.
  struct Want {
    Device to;
    std::uint32_t array_class;
    std::uint32_t cell;
    std::int64_t begin;  // in the supply's bytes
  };
  // All that the same devices hold, wanted by others: by receiver, class, cell and array.
  struct Supply {
    DeviceSets::Number holders;
    StreamPhase phase;
    std::vector<Want> wants;
    std::int64_t bytes = 0;
  };
  // Bytes of a supply.
  struct Stretch {
    std::size_t supply;
    std::int64_t begin;
    std::int64_t end;
  };

  void add_class(std::size_t number);
  void add_wants();
  void choose_senders();
  bool has_hosts() const { return first_on_host_.size() > 1; }
  // Bytes by supply and holder.
  std::vector<std::vector<std::int64_t>> share_by_hosts() const;
  std::vector<SenderDemand> crossing_demands() const;
  Device first_on_host(Device device) const { return first_on_host_.at(hosts_[static_cast<std::size_t>(device)]); }
  void add_stretches(const std::vector<std::vector<std::int64_t>>& shares);
  void list_streams();
  void count_crossing();
  void require_cap() const;
  std::int64_t longest_stream(StreamPhase phase) const;
  std::int64_t message_limit(StreamPhase phase) const;
  std::int64_t choose_rounds(StreamPhase phase);
  std::int64_t cell_bytes(const Want& want) const;
  std::int64_t nearest_cut(const Supply& supply, std::int64_t position, std::int64_t tolerance) const;
  std::size_t want_at(const Supply& supply, std::int64_t position) const;
  std::vector<std::int64_t> staging_at(std::int64_t rounds, StreamPhase phase) const;
  void visit_stretch(const Stretch& stretch, Device from, const std::function<void(const Piece&)>& visit) const;

  std::int64_t max_bytes_;
  TileUse sources_;
  MessageForm form_;
  Hosts hosts_;
  std::map<std::int64_t, Device> first_on_host_;
  DeviceSets sets_;
  std::vector<ArrayClass> classes_;
  std::vector<std::vector<Cell>> cells_;  // by class
  std::vector<Supply> supplies_;
  struct Assignment {
    StreamPhase phase;
    Device from;
    Device to;
    Stretch stretch;
  };
  std::vector<Assignment> assignments_;  // by sender, receiver and stretch
  std::vector<Stream> streams_;
  std::vector<std::size_t> first_assignment_;  // by stream, and the end
  std::vector<DeviceLoad> loads_;
  std::int64_t sent_bound_ = 0;
  std::int64_t rounds_ = 0;
  std::int64_t relay_rounds_ = 0;
  std::vector<std::int64_t> crossing_;
};

}  // namespace retile
