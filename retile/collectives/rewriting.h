// Rewriting into normal form, by the proofs of lem:peak and lem:edges (thm:normal-form).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retile/collectives/sequence.h"
#include "retile/collectives/weak.h"

namespace retile {

// One rewriting step: two or more neighbouring collectives become others with the same meaning.
struct Rewriting {
  std::string rule;   // "lem:peak, case 2 (m = n)"
  std::size_t first;  // index of the first collective that was replaced
  std::size_t replaced;
  std::size_t added;
  Sequence result;  // the whole sequence after the step
};

struct Normalization {
  Sequence source;
  std::vector<Rewriting> rewritings;

  const Sequence& result() const { return rewritings.empty() ? source : rewritings.back().result; }
};

// Splits the steps into single prime axes, removes peaks and moves edges until none is left, and
// merges neighbours of a kind. The result is in normal form, its height is at most the larger of its
// ends, and it places the same boxes. Axes of size 1 are left out of its types.
Normalization normalize(const Sequence& sequence);

// The same for weak sequences, where no permutations are needed (lem:cost-weak-nf): the cost never
// grows, because what was split is merged again.
WeakSequence normalize(const WeakSequence& sequence);

}  // namespace retile
