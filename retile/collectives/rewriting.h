// Rewriting into normal form, by the proofs of lem:peak and lem:edges (thm:normal-form).
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "retile/collectives/sequence.h"

namespace retile {

// One rewriting: neighbouring collectives become others with the same meaning.
struct Rewriting {
  std::string rule;            // "lem:peak, case 2 (m = n)"
  std::size_t first;           // index of the first collective that was replaced
  std::size_t replaced;        // how many were
  Sequence added;              // what stands there now, from the type before it
  std::int64_t height_before;  // of the whole sequence
  std::int64_t height_after;
};

// Splits the steps into single prime axes, removes peaks and moves edges until none is left, and
// merges neighbours of a kind. The result is in normal form, its height is at most the larger of its
// ends, and it places the same boxes. Axes of size 1 are left out of its types.
// Rewritings are handed over one by one and not kept: memory is that of the sequence.
Sequence normalize(const Sequence& sequence, const std::function<void(const Rewriting&)>& visit = {});

}  // namespace retile
