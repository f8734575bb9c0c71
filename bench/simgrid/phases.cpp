#include "bench/simgrid/phases.h"

#include <map>
#include <utility>

#include "retile/schedule/stage.h"

namespace retile::bench {
namespace {

Phase phase_of(const Stage& stage) {
  Phase phase;
  std::map<Device, std::int64_t> sent;  // by receiver
  for (Device device = 0; device < stage.after().device_count(); ++device) {
    stage.visit_sent(device, [&](const Piece& piece) { sent[piece.to] += volume(piece.box) * stage.element_size(); });
    for (const auto& [to, bytes] : std::exchange(sent, {})) phase.messages.push_back({device, to, bytes});
  }
  return phase;
}

}  // namespace

std::vector<Phase> phases_of(const Movement& movement, std::int64_t element_size, const Machine& machine) {
  std::vector<Phase> phases;
  for (const Stage& stage : make_schedule(movement, element_size, {})) {
    if (stage.reduction()) {
      phases.emplace_back();
    } else if (machine.hosts.size() == 1) {
      phases.push_back(phase_of(stage));
    } else {
      const StreamPlan plan({{stage.before(), stage.after(), element_size, {0}}}, movement.mesh.device_count(),
                            no_memory_limit, machine.host_numbers(), TileUse::kept);
      for (Phase& phase : phases_of(plan)) phases.push_back(std::move(phase));
    }
  }
  return phases;
}

std::vector<Phase> phases_of(const StreamPlan& plan) {
  std::vector<Phase> phases(plan.has_relays() ? 2 : 1);
  for (const StreamPlan::Stream& stream : plan.streams()) {
    const std::size_t phase = stream.phase == StreamPhase::passed_on ? 1 : 0;
    phases[phase].messages.push_back({stream.from, stream.to, stream.bytes});
  }
  if (phases.size() == 2) phases[1].begins_step = false;
  return phases;
}

}  // namespace retile::bench
