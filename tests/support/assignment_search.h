// A plain Dijkstra over device assignments by the rules of fig:low-level-semantics, on few devices.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/low_level.h"

namespace retile::test {

enum class AxesPerStep { one, any };

// The device map φ′ after a relabelling is not unique where tiles have replicas: every one is tried.
class AssignmentSearch {
 public:
  // Searches from ⟨identity, T⟦source⟧⟩ to every assignment.
  AssignmentSearch(const DistributedType& source, AxesPerStep axes);

  // A cheapest sequence to the target's placement under the identity.
  LowLevelSequence cheapest(const DistributedType& target) const;

 private:
  struct Reached {
    std::int64_t cost;
    bool settled;
    DeviceAssignment assignment;
    std::string previous;              // key; empty at the source
    std::optional<LowLevelStep> step;  // that led here
  };

  void expand(const std::string& key, const Reached& from);
  // A permutation leads from any assignment of a weak type to all of them, at one price: the cheapest is enough.
  void permute(const std::string& key, const Reached& from);
  void reach(std::int64_t cost, const DeviceAssignment& assignment, const std::string& previous,
             std::optional<LowLevelStep> step);

  DeviceAssignment source_;
  std::vector<std::vector<AxisPart>> axes_;  // that a step may take
  std::vector<DistributedType> types_;
  std::map<std::string, Reached> reached_;
  std::set<Shape> permuted_;  // local shapes
  std::priority_queue<std::pair<std::int64_t, std::string>, std::vector<std::pair<std::int64_t, std::string>>,
                      std::greater<>>
      open_;
};

}  // namespace retile::test
