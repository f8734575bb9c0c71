#include "retile/transfer/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/types/element_type.h"

namespace retile::transfer {
namespace {

// Placements are worked out anew, from the layouts that the manifest has.
class TransferVerifier {
 public:
  TransferVerifier(const Manifest& manifest, TileUse sources) : manifest_(manifest), world_(manifest.device_count()) {
    for (const Problem& problem : manifest.problems) {
      const MovedArray array = array_of(problem, sources);
      sources_.push_back(problem.source().inside(world_, array));
      targets_.push_back(problem.target().placement(world_, array));
    }
  }

  void check_device(Device to, const std::vector<StreamPlan::Piece>& pieces) {
    std::map<std::size_t, std::vector<const StreamPlan::Piece*>> by_array;
    for (const StreamPlan::Piece& piece : pieces) by_array[piece.array].push_back(&piece);
    for (std::size_t array = 0; array < manifest_.arrays.size(); ++array) check_array(array, to, by_array[array]);
  }

  void add_fault(std::string fault) { faults_.push_back(std::move(fault)); }
  std::vector<std::string> take() { return std::move(faults_); }

 private:
  void fault_in(std::size_t array, std::string_view what) {
    add_fault(fmt::format("array \"{}\": {}", manifest_.arrays[array].name, what));
  }

  static bool holds(const Placement& placement, Device device, const Box& box) {
    const std::vector<Part> parts = placement.parts(device);
    return std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return contains(part.box, box); });
  }

  static bool holds_some(const Placement& placement, Device device, const Box& box) {
    const std::vector<Part> parts = placement.parts(device);
    return std::any_of(parts.begin(), parts.end(),
                       [&](const Part& part) { return intersect(part.box, box).has_value(); });
  }

  void check_array(std::size_t array, Device to, const std::vector<const StreamPlan::Piece*>& pieces) {
    const std::size_t problem = manifest_.arrays[array].problem;
    const Placement& target = targets_[problem];
    for (const StreamPlan::Piece* piece : pieces) {
      if (!holds(piece->phase == StreamPhase::passed_on ? target : sources_[problem], piece->from, piece->box)) {
        fault_in(array, fmt::format("device {} sends {}, which it does not hold", piece->from, to_string(piece->box)));
      }
      if (piece->from != to && holds_some(sources_[problem], to, piece->box)) {
        fault_in(array, fmt::format("device {} is sent {}, of which it holds some", to, to_string(piece->box)));
      }
      if (!holds(target, to, piece->box)) {
        fault_in(array, fmt::format("device {} is sent {}, which it does not want", to, to_string(piece->box)));
      }
    }
    for (const Part& part : target.parts(to)) check_part(array, to, part.box, pieces);
  }

  void check_part(std::size_t array, Device to, const Box& wanted,
                  const std::vector<const StreamPlan::Piece*>& pieces) {
    std::vector<Box> boxes;
    for (const StreamPlan::Piece* piece : pieces) {
      if (auto shared = intersect(wanted, piece->box)) boxes.push_back(*std::move(shared));
    }
    if (const auto lacking = find_uncovered(wanted, boxes)) {
      fault_in(array, fmt::format("device {} lacks {}", to, to_string(*lacking)));
    }
    if (const auto twice = find_covered_twice(wanted, boxes)) {
      fault_in(array, fmt::format("device {} gets {} twice", to, to_string(*twice)));
    }
  }

  const Manifest& manifest_;
  const std::int64_t world_;
  std::vector<Placement> sources_;
  std::vector<Placement> targets_;
  std::vector<std::string> faults_;
};

struct Counts {
  std::int64_t sent = 0;
  std::int64_t received = 0;
  std::int64_t staged[2] = {};  // from sources, and on from targets: one follows the other
};

// Pieces that are passed on come from what came straight from sources.
void check_relays(const Manifest& manifest, const std::vector<StreamPlan::Piece>& relayed, TransferVerifier& verifier) {
  std::map<std::pair<std::size_t, Device>, std::vector<const Box*>> received;
  for (const StreamPlan::Piece& piece : relayed) received[{piece.array, piece.to}].push_back(&piece.box);
  for (const StreamPlan::Piece& piece : relayed) {
    for (const Box* box : received[{piece.array, piece.from}]) {
      if (!intersect(*box, piece.box)) continue;
      verifier.add_fault(fmt::format("array \"{}\": device {} passes on {}, which is passed on to it itself",
                                     manifest.arrays[piece.array].name, piece.from, to_string(piece.box)));
    }
  }
}

void check_counts(const TransferPlan& plan, const std::vector<Counts>& counts, TransferVerifier& verifier) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const DeviceLoad& load = plan.loads()[i];
    const auto compare = [&](const char* what, std::int64_t is, std::int64_t stated) {
      if (is != stated) verifier.add_fault(fmt::format("device {} {} {} bytes, not {}", i, what, is, stated));
    };
    compare("sends", counts[i].sent, load.sent);
    compare("receives", counts[i].received, load.received);
    compare("lacks", counts[i].received, load.lacking);
    const std::int64_t staged = std::max(counts[i].staged[0], counts[i].staged[1]);
    compare("stages", staged, load.staging);
    if (plan.sources() == TileUse::kept && staged > plan.max_bytes()) {
      verifier.add_fault(fmt::format("device {} stages {} bytes, more than {}", i, staged, plan.max_bytes()));
    }
  }
}

}  // namespace

std::vector<std::string> find_faults(const Manifest& manifest, Device to,
                                     const std::vector<StreamPlan::Piece>& pieces) {
  TransferVerifier verifier(manifest, TileUse::kept);
  verifier.check_device(to, pieces);
  return verifier.take();
}

std::vector<std::string> find_faults(const TransferPlan& plan) {
  const Manifest& manifest = plan.manifest();
  TransferVerifier verifier(manifest, plan.sources());
  std::vector<Counts> counts(plan.loads().size());
  std::vector<StreamPlan::Piece> relayed;
  for (Device to = 0; to < plan.device_count(); ++to) {
    std::vector<StreamPlan::Piece> pieces;
    plan.visit_kept(to, [&](const StreamPlan::Piece& piece) { pieces.push_back(piece); });
    for (const TransferPlan::Stream& stream : plan.streams()) {
      if (stream.to != to) continue;
      std::int64_t bytes = 0;
      plan.visit_pieces(stream, [&](const StreamPlan::Piece& piece) {
        const Problem& problem = manifest.problems[manifest.arrays[piece.array].problem];
        bytes += volume(piece.box) * bytes_of(problem.element_type());
        pieces.push_back(piece);
        if (piece.phase == StreamPhase::passed_on) relayed.push_back(piece);
      });
      const std::int64_t rounds = plan.rounds(stream.phase);
      const std::int64_t staged = divide_up(bytes, rounds) * 2;  // two rounds at once
      Counts& sender = at(counts, stream.from);
      Counts& receiver = at(counts, to);
      sender.sent += bytes;
      at(sender.staged, stream.phase) += staged;
      receiver.received += bytes;
      at(receiver.staged, stream.phase) += staged;
    }
    verifier.check_device(to, pieces);
  }
  check_relays(manifest, relayed, verifier);
  check_counts(plan, counts, verifier);
  return verifier.take();
}

}  // namespace retile::transfer
