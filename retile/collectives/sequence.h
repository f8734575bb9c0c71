// Sequences of typed collectives: their height, their cost, and whether they are in normal form.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/base/diagnostic.h"
#include "retile/collectives/collective.h"
#include "retile/types/distributed_type.h"

namespace retile {

// Typed by construction: every step applies to the type before it.
class Sequence {
 public:
  explicit Sequence(DistributedType source);
  // Throws InputError where a step does not apply.
  Sequence(DistributedType source, const std::vector<Collective>& steps);

  void append(Collective step);

  const Mesh& mesh() const { return types_.front().mesh(); }
  const DistributedType& source() const { return types_.front(); }
  const DistributedType& target() const { return types_.back(); }
  std::size_t size() const { return steps_.size(); }
  const std::vector<Collective>& steps() const { return steps_; }
  // The types between the steps: types()[i] before step i, size() + 1 in all.
  const std::vector<DistributedType>& types() const { return types_; }

 private:
  std::vector<Collective> steps_;
  std::vector<DistributedType> types_;
};

// The largest local size on the way (def:semantics-definition).
std::int64_t height(const Sequence& sequence);

// Throws InputError where the sum does not fit in 63 bits.
std::int64_t cost(const Sequence& sequence);

// dynslice* {alltoall | allpermute}* allgather* (def:normal-form).
bool is_normal_form(const std::vector<CollectiveKind>& kinds);
bool is_normal_form(const Sequence& sequence);

// A mesh, a type, then "-> step [type]" for each step, as in notation.h; a step of several changes becomes as many
// steps. The type after a step may be left out except after allpermute and slices by a factor, and is checked where it
// is there. alltoall(i -> j) and allgather(i) act on the most minor axis. Throws InputError.
Sequence parse_sequence(const SourceText& source);

// Parses back to an equal sequence.
std::string to_string(const Sequence& sequence);

}  // namespace retile
