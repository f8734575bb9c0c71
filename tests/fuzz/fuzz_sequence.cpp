// A sequence file.
#include <algorithm>

#include "retile/collectives/rewriting.h"
#include "retile/collectives/sequence.h"
#include "retile/plan/lists.h"
#include "retile/plan/verify.h"
#include "retile/types/text.h"
#include "tests/fuzz/require.h"
#include "tests/support/typed_steps.h"

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

void check_steps(const Sequence& sequence) {
  const Movement movement{sequence.mesh(), Placement(sequence.source()), test::typed_steps(sequence)};
  require(movement.target() == Placement(sequence.target()), "the steps of a sequence end where it ends");
  require(height(movement) == height(sequence), "the steps of a sequence are as high as it");
  for (const std::string& fault : find_faults(movement)) require(false, "the steps of a sequence are right: " + fault);
  for (const std::string& fault : find_faults(with_lists(movement))) require(false, "and their lists: " + fault);
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
