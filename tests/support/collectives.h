// The collectives that apply to a type, all short sequences of them, and random long ones.
#pragma once

#include <rapidcheck.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "retile/collectives/collective.h"
#include "retile/collectives/rewriting.h"
#include "retile/collectives/sequence.h"
#include "retile/types/distributed_type.h"
#include "tests/support/weak.h"

namespace retile::test {

// The meshes of all_meshes() whose axes all have prime sizes.
std::vector<Mesh> prime_meshes(std::int64_t most_devices);

// A sequence from text that is known to be right.
Sequence sequence_of(std::string_view text);

// Every dynslice, alltoall and allgather that names one prime part of the mesh, whether it applies
// or not.
std::vector<Collective> candidate_collectives(const DistributedType& type);
// Those that apply.
std::vector<Collective> single_axis_collectives(const DistributedType& type);
// Those that apply, on one or more prime parts; a dynslice takes its parts in every order.
std::vector<Collective> multi_axis_collectives(const DistributedType& type);
// An allpermute to each candidate that has the type's shapes.
std::vector<Collective> permutations(const DistributedType& type, std::span<const DistributedType> candidates);

using StepsOfType = std::function<std::vector<Collective>(const DistributedType&)>;

// Visits every sequence that starts with `start` and adds at most `most_added` steps; returns how
// many there were.
std::int64_t for_each_sequence(const Sequence& start, int most_added, const StepsOfType& steps,
                               const std::function<void(const Sequence&)>& visit);

// Every weak type that the mesh supplies for the global shape.
std::vector<WeakType> all_weak_types(const Mesh& mesh, const Shape& global);
// Every weak collective of the type, with any factor or with prime factors alone.
enum class Factors { prime, any };
std::vector<WeakStep> weak_steps(const Mesh& mesh, const WeakType& type, Factors factors);
std::int64_t for_each_weak_sequence(const WeakSequence& start, int most_added, Factors factors,
                                    const std::function<void(const WeakSequence&)>& visit);

// Up to `longest` steps of every kind, with one to three prime parts each.
rc::Gen<Sequence> arbitrary_sequence(const DistributedType& source, int longest);

// eq:naive-redistribution: every dimension is gathered that is cut, then sliced as in the target. Nothing where both
// place the same boxes.
Sequence gather_and_slice(const DistributedType& source, const DistributedType& target);

// A rewriting with the whole sequence after it, typed anew.
struct TracedRewriting {
  Rewriting rewriting;
  Sequence result;
};

struct Trace {
  Sequence source;
  std::vector<TracedRewriting> rewritings;

  const Sequence& result() const { return rewritings.empty() ? source : rewritings.back().result; }
};

// Normalizes, and applies each rewriting to the sequence before it.
Trace trace_normalization(const Sequence& sequence);

// One character per step: s(lice), a(lltoall), g(ather), p(ermute).
std::string kinds(const Sequence& sequence);

}  // namespace retile::test
