#include "retile/transfer/message_plan.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/mixing.h"
#include "retile/base/sentences.h"
#include "retile/grids/held_boxes.h"
#include "retile/transfer/message_header.h"
#include "retile/transfer/message_plan_state.h"
#include "retile/transfer/seconds.h"
#include "retile/transfer/text.h"

namespace retile::transfer {
namespace {

class Fingerprint {
 public:
  void add(std::int64_t value) { value_ = mix_bits(value_ ^ static_cast<std::uint64_t>(value)); }
  void add(const std::string& text) {
    add(static_cast<std::int64_t>(text.size()));
    for (const char c : text) add(static_cast<std::int64_t>(c));
  }
  void add(const Placement& placement) {
    for (const std::int64_t length : placement.global_shape()) add(length);
    for (const HeldBox& held : held_boxes(placement)) {
      for (const Shape* corner : {&held.box.lo, &held.box.hi}) {
        for (const std::int64_t index : *corner) add(index);
      }
      for (const Device device : held.holders) add(device);
      add(-1);
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

std::vector<StreamPlan::ArrayClass> classes_of(const std::vector<ArrayKind>& kinds,
                                               const std::vector<KindOfArray>& arrays) {
  std::vector<StreamPlan::ArrayClass> classes;
  for (const ArrayKind& kind : kinds) {
    classes.push_back({kind.source, kind.target, bytes_of(kind.element_type), {}});
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) classes[arrays[i].kind].arrays.push_back(i);
  return classes;
}

// Elements that are wanted and that no rank holds.
void require_held(const std::vector<ArrayKind>& kinds, const std::vector<KindOfArray>& arrays) {
  std::map<std::size_t, std::string> lacking;  // by kind
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    std::vector<Box> held;
    for (const HeldBox& box : held_boxes(kinds[i].source)) held.push_back(box.box);
    for (const HeldBox& wanted : held_boxes(kinds[i].target)) {
      std::vector<Box> shared;
      for (const Box& box : held) {
        if (auto part = intersect(wanted.box, box)) shared.push_back(*std::move(part));
      }
      if (const auto missing = find_uncovered(wanted.box, shared)) {
        lacking[i] = fmt::format("no rank holds {}, which rank {} wants", to_string(*missing), wanted.holders.front());
        break;
      }
    }
  }
  Sentences faults;
  for (const KindOfArray& array : arrays) {
    const auto found = lacking.find(array.kind);
    if (found != lacking.end()) faults.add(fmt::format("array \"{}\": {}", array.name, found->second));
  }
  if (!faults.empty()) throw InputError(faults.text(), {});
}

std::uint64_t fingerprint_of(const std::vector<ArrayKind>& kinds, const MessagePlanState& state,
                             const std::vector<std::int64_t>& hosts) {
  Fingerprint fingerprint;
  for (const KindOfArray& array : state.arrays) {
    fingerprint.add(array.name);
    fingerprint.add(static_cast<std::int64_t>(array.kind));
  }
  for (const ArrayKind& kind : kinds) {
    fingerprint.add(static_cast<std::int64_t>(kind.element_type));
    fingerprint.add(kind.source);
    fingerprint.add(kind.target);
  }
  for (const std::int64_t host : hosts) fingerprint.add(host);
  for (const std::int64_t number : {state.streams.device_count(), state.rounds(StreamPhase::from_sources),
                                    state.rounds(StreamPhase::passed_on), std::int64_t{state.has_checksums}}) {
    fingerprint.add(number);
  }
  return fingerprint.value();
}

}  // namespace

MessagePlan::MessagePlan(const std::vector<ArrayKind>& kinds, std::vector<KindOfArray> arrays, std::int64_t ranks,
                         const MessageOptions& options) {
  require_held(kinds, arrays);
  if (options.machine != nullptr) require_devices(options.machine->machine(), ranks);
  const auto hosts = options.machine == nullptr ? options.hosts : options.machine->machine().host_numbers();
  MessageForm form{header_bytes, options.most_message_bytes};
  if (options.machine != nullptr) form = message_form(options.machine->machine(), form);
  StreamPlan streams(classes_of(kinds, arrays), ranks, options.max_bytes, hosts, TileUse::kept, form);
  MessagePlanState state{std::move(arrays), {}, options.has_checksums, options.machine, std::move(streams)};
  for (const ArrayKind& kind : kinds) state.element_types.push_back(kind.element_type);
  state.fingerprint = fingerprint_of(kinds, state, hosts);
  state_ = std::make_shared<const MessagePlanState>(std::move(state));
}

std::uint64_t MessagePlan::fingerprint() const { return state_->fingerprint; }
std::int64_t MessagePlan::rounds() const {
  return state_->rounds(StreamPhase::from_sources) + state_->rounds(StreamPhase::passed_on);
}
std::int64_t MessagePlan::sent_bytes(Device rank) const { return state_->load(rank).sent; }
std::int64_t MessagePlan::received_bytes(Device rank) const { return state_->load(rank).received; }
std::int64_t MessagePlan::staged_bytes(Device rank) const { return state_->load(rank).staging; }
std::string MessagePlan::text() const {
  const std::string text = to_string(state_->streams);
  return state_->machine == nullptr ? text : text + time_line(predict_time(state_->streams, *state_->machine));
}

}  // namespace retile::transfer
