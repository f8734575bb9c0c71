// A sequence file.
#include <algorithm>

#include "retile/collectives/rewriting.h"
#include "retile/collectives/sequence.h"
#include "retile/plan/typed_steps.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

void check_normalization(const Sequence& sequence) {
  const Sequence result = normalize(sequence);
  require(is_normal_form(result), "the result is in normal form");
  require(same_placement(result.source(), sequence.source()), "it starts where the sequence starts");
  require(same_placement(result.target(), sequence.target()), "it ends where the sequence ends");
  const std::int64_t ends = std::max(sequence.source().local_size(), sequence.target().local_size());
  require(height(result) <= ends, "it is no higher than its ends");
}

// As a plan of a cost model that the verifier does not know, so that only boxes and sizes are judged.
void check_steps(const Sequence& sequence) {
  Plan plan{"", sequence.source(), sequence.target(), "", {}, {}, 0, typed_steps(sequence)};
  plan.memory.source = sequence.source().local_size();
  plan.memory.target = sequence.target().local_size();
  plan.memory.peak = height(sequence);
  for (const std::string& fault : find_faults(plan)) {
    require(fault.starts_with("cost: the floor is"), "the steps of a sequence are right: " + fault);
  }
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const auto sequence = fuzz::try_parse([&] { return parse_sequence({"sequence", fuzz::text_of(data, size)}); });
  if (!sequence) return 0;
  const std::string text = to_string(*sequence);
  fuzz::require(to_string(parse_sequence({"printed", text})) == text, "a sequence parses back: " + text);
  const bool small = sequence->mesh().device_count() <= 64 && sequence->source().rank() <= 8 && sequence->size() <= 8;
  if (!small) return 0;
  fuzz::check_normalization(*sequence);
  fuzz::check_steps(*sequence);
  return 0;
}
