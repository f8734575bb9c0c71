// The four typed collectives (fig:collective-typing), each acting on one or several axes at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/types/distributed_type.h"

namespace retile {

enum class CollectiveKind { dynslice, alltoall, allgather, allpermute };

// The axes of a step are listed minor to major, as they stand in the type that has them.

// Cuts a dimension along axes that cut nothing yet; they become its most minor ones.
struct DynSlice {
  int dimension;
  std::vector<AxisPart> axes;
};

// Moves the most minor axes of dimension `from` to be the most minor ones of `to`.
struct AllToAll {
  int from;
  int to;
  std::vector<AxisPart> axes;
};

// Undoes the cut of a dimension along its most minor axes.
struct AllGather {
  int dimension;
  std::vector<AxisPart> axes;
};

// Gives tiles new owners: any type of equal local and global shape.
struct AllPermute {
  DistributedType result;
};

using Collective = std::variant<DynSlice, AllToAll, AllGather, AllPermute>;

CollectiveKind kind_of(const Collective& collective);
const char* name_of(CollectiveKind kind);

// The axes that the collective acts on; none for a permutation.
const std::vector<AxisPart>& axes_of(const Collective& collective);
// The product of their sizes.
std::int64_t factor_of(const Collective& collective);

// Why the typing rule does not apply to this type; nothing where it does.
std::optional<Fault> find_fault(const DistributedType& type, const Collective& collective);

// The type after the collective. Throws InputError where find_fault() finds one.
DistributedType type_after(const DistributedType& type, const Collective& collective);

// fig:cost-model: elements sent per device, own parts counted. A step that moves anything costs the local size that it
// leads to, a slice nothing.
constexpr std::int64_t paper_cost(bool moves, std::int64_t local_size_after) { return moves ? local_size_after : 0; }
inline std::int64_t cost(CollectiveKind kind, std::int64_t local_size_after) {
  return paper_cost(kind != CollectiveKind::dynslice, local_size_after);
}

// "alltoall(0 -> 1; x,y)"; a permutation is just "allpermute".
std::string to_string(const Mesh& mesh, const Collective& collective);

}  // namespace retile
