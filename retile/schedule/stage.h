// Stages of a movement: which pieces go from which device's tile to which other's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "retile/memory/tile_layout.h"
#include "retile/plan/lists.h"
#include "retile/plan/memory.h"
#include "retile/plan/plan.h"

namespace retile {

// One copy from tiles to tiles. A device's own parts are pieces too (`from` equals `to`). Pieces are not listed
// unless the plan does it, because there may be one for each pair of devices: a stage takes memory per device alone,
// and works out each device's pieces by themselves.
class Stage {
 public:
  using Visit = std::function<void(const Piece&)>;

  // `strides` are of all devices' tiles before and after the stage.
  Stage(const Movement& movement, StageSteps steps, BufferStrides strides, std::int64_t element_size);
  // No step: every device's own tile is copied as it is.
  Stage(const Placement& tiles, BufferStrides strides, std::int64_t element_size);

  // The movement's step that this stage ends with.
  std::size_t step() const { return step_; }
  // The reduction that the stage is, if it is no copy: every device combines the rows of its tile into one.
  const std::optional<ReduceStep>& reduction() const { return reduction_; }
  // The tiles that are read, what is looked at of them, and the tiles that are written.
  const Placement& before() const { return before_; }
  const Placement& held() const { return held_; }
  const Placement& after() const { return after_; }
  const BufferStrides& strides() const { return strides_; }
  std::int64_t element_size() const { return element_size_; }
  // The tile, or the part of it, that a box lies in, as it lies in memory.
  TileLayout tile_before(Device device, const Box& box) const {
    return layout_around(before_, strides_.sources, device, box);
  }
  TileLayout tile_after(Device device, const Box& box) const {
    return layout_around(after_, strides_.targets, device, box);
  }

  // The devices that the stage brings together, if its step has groups; null otherwise.
  const Groups* groups() const;

  // The pieces that make up the device's tile after the stage, each element once. What is visited is there for the call
  // only.
  void visit_received(Device device, const Visit& visit) const;
  // The pieces of the device's tile that go to other devices. Those between two devices come in the order in which
  // visit_received() has them.
  void visit_sent(Device device, const Visit& visit) const;

 private:
  // Ways in which a stage knows its pieces.
  struct OwnTiles {};
  struct GroupTiles {  // every member reads from every member
    Groups groups;
    std::vector<std::size_t> group_of;  // by device
  };
  struct PermutedTiles {
    std::vector<Device> senders;    // by receiver
    std::vector<Device> receivers;  // by sender
  };
  struct ListedPieces {
    std::vector<Piece> pieces;                // in order of their receivers
    std::vector<std::size_t> first_received;  // by device, in pieces, and the end
    std::vector<std::size_t> sent;            // numbers of those to other devices, in order of their senders
    std::vector<std::size_t> first_sent;      // by device, in sent, and the end
  };
  using Pieces = std::variant<OwnTiles, GroupTiles, PermutedTiles, ListedPieces, GridExchange>;

  static Pieces pieces_of(const StepOperation& operation, const Placement& held, const Placement& after);
  static Pieces list_pieces(std::vector<Piece> pieces, std::int64_t devices);
  TileLayout layout_around(const Placement& placement, const std::vector<Strides>& strides, Device device,
                           const Box& box) const;
  void visit_own(Device device, const Visit& visit) const;
  void visit_shared(Device from, Device to, const Visit& visit) const;
  void visit_permuted(Device from, Device to, const Visit& visit) const;
  Visit clipped(const Visit& visit) const;

  std::size_t step_ = 0;
  std::optional<ReduceStep> reduction_;
  Placement before_;
  Placement held_;
  Placement after_;
  BufferStrides strides_;
  std::int64_t element_size_ = 1;
  Pieces pieces_;
};

// Why elements of so many bytes cannot be combined as the movement says; nothing where they can.
std::optional<std::string> find_element_fault(const Movement& movement, std::int64_t element_size);
// Throws RuntimeError there.
void require_element_size(const Movement& movement, std::int64_t element_size);

// Works out the lists of steps that lack them, but not those of exchanges.
Movement with_short_lists(Movement movement);

// The first stage reads from sources and the last one writes to targets that lie as the strides of all devices say.
// Tiles between them are packed, with their dimensions in the order of their device's source: what keeps its order from
// end to end is never transposed. A movement without steps has no stages.
std::vector<Stage> make_schedule(const Movement& movement, std::int64_t element_size, const BufferStrides& strides);
inline std::vector<Stage> make_schedule(const Movement& movement) { return make_schedule(movement, 1, {}); }

}  // namespace retile
