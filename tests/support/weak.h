// Weak types and collectives (sec:weak-collectives): what is left when it does not matter which
// device holds which tile. With the global shape fixed, a weak type is a local shape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "retile/collectives/collective.h"
#include "retile/collectives/sequence.h"
#include "retile/types/distributed_type.h"
#include "retile/types/text.h"

namespace retile::test {

// E⟦τ⟧ of the paper.
struct WeakType {
  Shape global;
  Shape local;

  bool operator==(const WeakType&) const = default;
};

WeakType weaken(const DistributedType& type);
std::int64_t local_size(const WeakType& type);

// True where some type over the mesh has this weak type: local divides global, and for each prime
// the mesh has axes enough to make the cuts.
bool is_supplied(const Mesh& mesh, const WeakType& type);

// A weak collective; never a permutation.
struct WeakStep {
  CollectiveKind kind;
  int dimension;        // sliced, gathered, or the one an alltoall takes its cuts from
  int to;               // where an alltoall takes its cuts to; otherwise equal to `dimension`
  std::int64_t factor;  // product of the axes' sizes

  bool operator==(const WeakStep&) const = default;
};

WeakStep weak_slice(int dimension, std::int64_t factor);
WeakStep weak_gather(int dimension, std::int64_t factor);
WeakStep weak_alltoall(int from, int to, std::int64_t factor);

std::optional<Fault> find_fault(const Mesh& mesh, const WeakType& type, const WeakStep& step);
// Throws InputError where find_fault() finds one.
WeakType type_after(const Mesh& mesh, const WeakType& type, const WeakStep& step);

class WeakSequence {
 public:
  WeakSequence(Mesh mesh, WeakType source);
  WeakSequence(const Mesh& mesh, const WeakType& source, const std::vector<WeakStep>& steps);

  void append(const WeakStep& step);

  const Mesh& mesh() const { return mesh_; }
  const WeakType& source() const { return types_.front(); }
  const WeakType& target() const { return types_.back(); }
  std::size_t size() const { return steps_.size(); }
  const std::vector<WeakStep>& steps() const { return steps_; }
  const std::vector<WeakType>& types() const { return types_; }

 private:
  Mesh mesh_;
  std::vector<WeakStep> steps_;
  std::vector<WeakType> types_;
};

// The sequence without its permutations.
WeakSequence weaken(const Sequence& sequence);

std::int64_t height(const WeakSequence& sequence);
std::int64_t cost(const WeakSequence& sequence);
bool is_normal_form(const WeakSequence& sequence);

// "[8, 1] -> alltoall(0 -> 1; 4) -> …" on one line.
using retile::to_string;
std::string to_string(const WeakSequence& sequence);

// Into normal form, where no permutations are needed (lem:cost-weak-nf): the cost never grows, because what was split
// is merged again.
WeakSequence normalize(const WeakSequence& sequence);

}  // namespace retile::test
