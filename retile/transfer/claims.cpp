#include "retile/transfer/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/base/list.h"
#include "retile/grids/box_index.h"
#include "retile/types/text.h"

namespace retile::transfer {
namespace {

using Cuts = std::vector<std::set<std::int64_t>>;  // by dimension

bool is_box_of(const Box& box, const Shape& shape) {
  if (box.lo.size() != shape.size() || box.hi.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (box.lo[i] < 0 || box.lo[i] > box.hi[i] || box.hi[i] > shape[i]) return false;
  }
  return true;
}

// Throws InputError where two of them overlap.
void require_disjoint(std::size_t rank, const std::vector<Box>& boxes) {
  if (boxes.size() < 2) return;
  const BoxIndex index(boxes);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    index.visit_shared(boxes[i], [&](std::size_t other, const Box&) {
      if (other == i) return;
      throw InputError(
          fmt::format("rank {} has {} and {}, which overlap", rank, to_string(boxes[i]), to_string(boxes[other])), {});
    });
  }
}

// The boxes that a box falls into along the cuts inside it.
std::vector<Box> cut_along(const Box& box, const Cuts& cuts) {
  std::vector<Box> parts{box};
  for (std::size_t i = 0; i < box.lo.size(); ++i) {
    std::vector<Box> next;
    for (const Box& part : parts) {
      Box rest = part;
      for (auto cut = cuts[i].upper_bound(part.lo[i]); cut != cuts[i].end() && *cut < part.hi[i]; ++cut) {
        Box first = rest;
        first.hi[i] = *cut;
        rest.lo[i] = *cut;
        next.push_back(std::move(first));
      }
      next.push_back(std::move(rest));
    }
    parts = std::move(next);
  }
  return parts;
}

// Different boxes, and where each is cut: boxes that overlap, directly or by way of others, have all cuts in common.
class OverlappingBoxes {
 public:
  explicit OverlappingBoxes(std::vector<Box> boxes) : groups_(boxes.size()) {
    std::iota(groups_.begin(), groups_.end(), std::size_t{0});
    const BoxIndex index(boxes);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      index.visit_shared(boxes[i], [&](std::size_t other, const Box&) { groups_[group_of(other)] = group_of(i); });
    }
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      Cuts& cuts = cuts_[group_of(i)];
      cuts.resize(boxes[i].lo.size());
      for (std::size_t dimension = 0; dimension < cuts.size(); ++dimension) {
        cuts[dimension].insert({boxes[i].lo[dimension], boxes[i].hi[dimension]});
      }
    }
  }

  const Cuts& cuts(std::size_t box) { return cuts_[group_of(box)]; }

 private:
  std::size_t group_of(std::size_t box) {
    while (groups_[box] != box) box = groups_[box] = groups_[groups_[box]];
    return box;
  }

  std::vector<std::size_t> groups_;  // a forest; its roots are the groups
  std::map<std::size_t, Cuts> cuts_;
};

}  // namespace

Placement placement_of(const Shape& shape, const std::vector<std::vector<Box>>& boxes) {
  std::map<std::pair<Shape, Shape>, std::size_t> numbers;
  std::vector<Box> distinct;
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
    std::vector<Box> own;
    for (const Box& box : boxes[rank]) {
      if (!is_box_of(box, shape)) {
        throw InputError(
            fmt::format("rank {} has {}, which is no box of an array of {}", rank, to_string(box), to_string(shape)),
            {});
      }
      if (volume(box) == 0) continue;
      own.push_back(box);
      if (numbers.try_emplace({box.lo, box.hi}, distinct.size()).second) distinct.push_back(box);
    }
    require_disjoint(rank, own);
  }
  OverlappingBoxes overlapping(distinct);
  std::vector<std::vector<Part>> parts(boxes.size());
  for (std::size_t rank = 0; rank < boxes.size(); ++rank) {
    std::int64_t elements = 0;
    for (const Box& box : boxes[rank]) {
      if (volume(box) == 0) continue;
      for (Box& piece : cut_along(box, overlapping.cuts(numbers.at({box.lo, box.hi})))) {
        Part part = packed_part(std::move(piece));
        part.offset = elements;
        elements += volume(part.box);
        parts[rank].push_back(std::move(part));
      }
    }
  }
  return {shape, std::move(parts)};
}

Placement placement_within(const Placement& placement, const std::vector<Box>& boxes) {
  std::vector<Box> disjoint;
  for (const Box& box : boxes) {
    std::vector<Box> rest{box};
    for (const Box& before : std::vector<Box>(disjoint)) {
      std::vector<Box> left;
      for (const Box& one : rest) {
        for (Box& part : subtract(one, before)) left.push_back(std::move(part));
      }
      rest = std::move(left);
    }
    disjoint.insert(disjoint.end(), rest.begin(), rest.end());
  }
  std::vector<std::vector<Part>> parts(static_cast<std::size_t>(placement.device_count()));
  for (Device device = 0; device < placement.device_count(); ++device) {
    for (const Part& part : placement.parts(device)) {
      for (const Box& box : disjoint) {
        const auto shared = intersect(part.box, box);
        if (shared) at(parts, device).push_back({*shared, place_of(part, shared->lo), part.strides});
      }
    }
  }
  return {placement.global_shape(), std::move(parts), placement.memory_dimensions()};
}

}  // namespace retile::transfer
