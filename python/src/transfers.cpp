// Transfers of whole models whose messages Python carries: their plans, and what one rank packs and unpacks.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "arguments.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace retile::python {
namespace {

using transfer::ArrayKind;
using transfer::KindOfArray;
using transfer::Message;
using transfer::MessageOptions;
using transfer::MessagePlan;
using transfer::RankTransfer;
using transfer::Staging;
using transfer::TileMemory;
using transfer::TransferSide;

// A box: its first elements, and those beyond the last.
using PythonBox = std::pair<Shape, Shape>;
// One side of a transfer: the boxes that ranks hold, rank by rank, or a layout.
using PythonSide = std::variant<std::vector<std::vector<PythonBox>>, PythonLayout>;
// A kind of array: shape, element type, source, target, and the boxes that are moved (none: all).
using PythonKind = std::tuple<Shape, std::string, PythonSide, PythonSide, std::optional<std::vector<PythonBox>>>;
// An array in memory: its number, whether it is a target, the address of its first element, strides in bytes (none:
// packed), its box, its element type in memory (none: the array's) and the scales of its blocks.
using PythonMemory = std::tuple<std::size_t, bool, std::uintptr_t, Strides, PythonBox, std::optional<std::string>,
                                std::optional<const BlockScales*>>;
// A box in the memory of a device: the bytes before its first element, and its strides in bytes.
using PythonPart = std::tuple<PythonBox, std::int64_t, Strides>;

std::vector<Box> boxes_of(const std::vector<PythonBox>& listed) {
  std::vector<Box> boxes;
  for (const auto& [lo, hi] : listed) boxes.push_back({lo, hi});
  return boxes;
}

// NOLINTNEXTLINE(*-reinterpret-cast): frameworks give addresses as numbers
std::byte* memory_at(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }
// NOLINTNEXTLINE(*-reinterpret-cast): likewise
std::uintptr_t address_of(const float* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

Placement placement_of(const PythonSide& side, const Shape& shape, std::int64_t ranks, TransferSide end) {
  if (const auto* layout = std::get_if<PythonLayout>(&side)) {
    return end == TransferSide::source ? layout->layout.inside(ranks) : layout->layout.placement(ranks);
  }
  std::vector<std::vector<Box>> boxes;
  for (const std::vector<PythonBox>& own : std::get<0>(side)) boxes.push_back(boxes_of(own));
  return transfer::placement_of(shape, boxes);
}

// The boxes that a device gives or takes of its tile, which has these strides by dimension of its memory (none:
// packed).
std::vector<PythonPart> parts_of_tile(const PythonLayout& layout, Device device, bool is_source, const Strides& strides,
                                      std::int64_t element_size) {
  const Placement placement = placement_of(layout, layout.layout.global_shape(), layout.layout.device_count(),
                                           is_source ? TransferSide::source : TransferSide::target);
  const std::vector<int>& order = layout.layout.order();
  Strides by_dimension = strides;
  for (std::size_t i = 0; i < std::min(order.size(), strides.size()); ++i) {
    by_dimension[static_cast<std::size_t>(order[i])] = strides[i];
  }
  std::vector<PythonPart> parts;
  for (Part part : placement.parts(device)) {
    if (!strides.empty()) part = laid_out(std::move(part), placement.memory_dimensions(), by_dimension, 1);
    const std::int64_t scale = strides.empty() ? element_size : 1;
    for (std::int64_t& stride : part.strides) stride *= scale;
    parts.emplace_back(PythonBox(part.box.lo, part.box.hi), part.offset * scale, std::move(part.strides));
  }
  return parts;
}

ElementType element_type_of(const std::string& name) {
  return require(find_element_type(name), "element type", name, element_type_names);
}

void make_message_plan(MessagePlan* self, const std::vector<PythonKind>& kinds,
                       const std::vector<std::pair<std::string, std::size_t>>& arrays, std::int64_t ranks,
                       std::int64_t max_bytes, const std::vector<std::int64_t>& hosts, std::int64_t most_message_bytes,
                       bool has_checksums, Argument<"machine", std::optional<PythonMachine>> machine) {
  std::vector<ArrayKind> values;
  for (const auto& [shape, element_type, source, target, only] : kinds) {
    ArrayKind& kind = values.emplace_back(ArrayKind{placement_of(source, shape, ranks, TransferSide::source),
                                                    placement_of(target, shape, ranks, TransferSide::target),
                                                    element_type_of(element_type)});
    if (only) kind.target = transfer::placement_within(kind.target, boxes_of(*only));
  }
  std::vector<KindOfArray> named;
  for (const auto& [name, kind] : arrays) named.push_back({name, kind});
  new (self) MessagePlan(std::move(values), std::move(named), ranks,
                         MessageOptions{max_bytes, most_message_bytes, hosts, has_checksums,
                                        *machine ? &seconds_model((*machine)->machine) : nullptr});
}

void make_rank_transfer(RankTransfer* self, const MessagePlan& plan, Device rank,
                        const std::vector<PythonMemory>& memory, std::shared_ptr<Staging> staging,
                        const std::vector<std::int64_t>& processes, std::int64_t least_part) {
  std::vector<TileMemory> tiles;
  for (const auto& [array, is_target, address, strides, box, stored, scales] : memory) {
    TileMemory& tile = tiles.emplace_back();
    tile.array = array;
    tile.side = is_target ? TransferSide::target : TransferSide::source;
    tile.data = memory_at(address);
    tile.strides = strides;
    tile.box = Box{box.first, box.second};
    if (stored) tile.stored = element_type_of(*stored);
    tile.scales = scales.value_or(nullptr);
  }
  new (self) RankTransfer(plan, rank, tiles, std::move(staging), {processes, least_part});
}

// Pairs of peers and messages. Messages are views of the staging, valid no longer than it.
nb::list views_of(const std::vector<Message>& messages) {
  nb::list list;
  for (const Message& message : messages) {
    // NOLINTNEXTLINE(*-reinterpret-cast): Python's memory is of characters
    auto* const data = reinterpret_cast<char*>(message.bytes.data());
    const nb::object view =
        nb::steal(PyMemoryView_FromMemory(data, static_cast<Py_ssize_t>(message.bytes.size()), PyBUF_WRITE));
    if (!view.is_valid()) throw nb::python_error();
    list.append(nb::make_tuple(message.peer, view));
  }
  return list;
}

}  // namespace

void bind_transfers(nb::module_& module) {
  nb::class_<MessagePlan>(module, "MessagePlan",
                          "The plan of a transfer: who sends which part of a whole model to whom, in which round.")
      .def("__init__", &make_message_plan, "kinds"_a, "arrays"_a, "ranks"_a, "max_bytes"_a, "hosts"_a,
           "most_message_bytes"_a, "has_checksums"_a, "machine"_argument = nb::none(),
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("fingerprint", &MessagePlan::fingerprint)
      .def_prop_ro("rounds", &MessagePlan::rounds)
      .def("sent_bytes", &MessagePlan::sent_bytes, "rank"_a)
      .def("received_bytes", &MessagePlan::received_bytes, "rank"_a)
      .def("staged_bytes", &MessagePlan::staged_bytes, "rank"_a)
      .def("__str__", &MessagePlan::text);
  nb::class_<BlockScales>(module, "BlockScales", "The scales of all blocks that a box of an array touches.")
      .def(
          "__init__",
          [](BlockScales* self, const PythonBox& box, const Shape& block) {
            new (self) BlockScales({box.first, box.second}, block);
          },
          "box"_a, "block"_a)
      .def_prop_ro("blocks", [](const BlockScales& self) { return PythonBox(self.blocks().lo, self.blocks().hi); })
      .def_prop_ro(
          "maxima", [](BlockScales& self) { return address_of(self.maxima()); },
          "The address of the maxima of blocks, which are f32.")
      .def_prop_ro(
          "inverses", [](BlockScales& self) { return address_of(self.inverses()); },
          "The address of the inverse scales of blocks, which are f32.")
      .def(
          "add_shared",
          [](BlockScales& self, const PythonBox& blocks) {
            return address_of(self.add_shared({blocks.first, blocks.second}));
          },
          "blocks"_a, "The address of memory for the maxima of another box.")
      .def(
          "measure",
          [](BlockScales& self, std::uintptr_t address, const Strides& strides, const std::string& stored) {
            self.measure(memory_at(address), strides, element_type_of(stored));
          },
          "address"_a, "strides"_a, "stored"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("finish", &BlockScales::finish, nb::call_guard<nb::gil_scoped_release>());
  nb::class_<Staging>(module, "Staging", "Memory for messages of transfers that do not run at the same time.")
      .def(nb::init<>());
  nb::class_<RankTransfer>(module, "RankTransfer",
                           "The part of one rank in a transfer: what it packs, sends, receives and unpacks.")
      .def("__init__", &make_rank_transfer, "plan"_a, "rank"_a, "memory"_a, "staging"_a, "processes"_a,
           "least_part"_a = transfer::ReadableRanks().least_part, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("rounds", &RankTransfer::rounds)
      .def_prop_ro("first_passed_on", &RankTransfer::first_passed_on)
      .def_prop_ro("staged_bytes", &RankTransfer::staged_bytes)
      .def("last_rounds", &RankTransfer::last_rounds)
      .def(
          "sent", [](const RankTransfer& self, std::int64_t round) { return views_of(self.sent(round)); }, "round"_a,
          nb::sig("def sent(self, round: int) -> list[tuple[int, memoryview]]"))
      .def(
          "received", [](const RankTransfer& self, std::int64_t round) { return views_of(self.received(round)); },
          "round"_a, nb::sig("def received(self, round: int) -> list[tuple[int, memoryview]]"))
      .def("copy_kept", &RankTransfer::copy_kept, nb::call_guard<nb::gil_scoped_release>())
      .def("pack", &RankTransfer::pack, "round"_a, "peer"_a, "only_changed"_a = false,
           nb::call_guard<nb::gil_scoped_release>())
      .def("unpack", &RankTransfer::unpack, "round"_a, "peer"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("readers", &RankTransfer::readers, "round"_a)
      .def("set_lenders", &RankTransfer::set_lenders, "round"_a, "lenders"_a)
      .def(
          "make_offers",
          [](RankTransfer& self, std::int64_t round, bool only_changed) {
            return views_of(self.make_offers(round, only_changed));
          },
          "round"_a, "only_changed"_a,
          nb::sig("def make_offers(self, round: int, only_changed: bool) -> list[tuple[int, memoryview]]"))
      .def(
          "awaited_offers", [](RankTransfer& self, std::int64_t round) { return views_of(self.awaited_offers(round)); },
          "round"_a, nb::sig("def awaited_offers(self, round: int) -> list[tuple[int, memoryview]]"))
      .def("accept_offer", &RankTransfer::accept_offer, "round"_a, "peer"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("read", &RankTransfer::read, "round"_a, nb::call_guard<nb::gil_scoped_release>())
      .def("forget_sent", &RankTransfer::forget_sent);
  module.def("parts_of_tile", &parts_of_tile, "layout"_a, "device"_a, "is_source"_a, "strides"_a, "element_size"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "The boxes that a device gives or takes of its tile, each with the bytes before it in memory and its "
             "strides.\nA source has no ghost zones: they may be out of date.");
  module.def(
      "process_mark",
      [] {
        const transfer::ProcessMark mark = transfer::own_process_mark();
        return std::tuple(mark.system, mark.process, mark.cookie, mark.address);
      },
      "How other processes of the host find this one.");
  module.def(
      "can_read",
      [](const std::string& system, std::int64_t process, std::uint64_t cookie, std::uint64_t address) {
        return transfer::can_read({system, process, cookie, address});
      },
      "system"_a, "process"_a, "cookie"_a, "address"_a, "Whether this process may read that one's memory.");
  nb::class_<Round>(module, "Round", "A round: the boxes that devices send at once, each to one receiver.")
      .def_ro("senders", &Round::senders, "The sender to each device; -1 where it receives nothing.")
      .def_ro("taken_from", &Round::taken_from, "The corner of the box in each sender's tile.")
      .def_ro("written_to", &Round::written_to, "The corner of the box in each receiver's tile.");
  nb::class_<Rounds>(module, "Rounds", "The rounds of equal boxes by which tiles of an array become others.")
      .def_ro("cell", &Rounds::cell, "The shape of the boxes.")
      .def_ro("own", &Rounds::own, "Rounds of boxes that devices keep.")
      .def_ro("exchanged", &Rounds::exchanged, "Rounds of boxes that devices send each other.");
  module.def(
      "partial_rounds",
      [](const Shape& shape, const PythonSide& source, const PythonSide& target, std::int64_t devices) {
        return find_partial_rounds(placement_of(source, shape, devices, TransferSide::source),
                                   placement_of(target, shape, devices, TransferSide::target));
      },
      "shape"_a, "source"_a, "target"_a, "devices"_a, nb::call_guard<nb::gil_scoped_release>(),
      "The rounds; None unless the tiles of each side are equally large and side by side.");
  module.def(
      "byte_count",
      [](const std::string& text, const std::string& what) {
        return parse_byte_count({what, text});
      },
      "text"_a, "what"_a, "The number of bytes in a text such as 4096, 512MiB, 1.5GB.");
}

}  // namespace retile::python
