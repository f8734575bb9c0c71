// A mesh on the first line and a type on the others.
#include <algorithm>

#include "retile/types/distributed_type.h"
#include "retile/types/placement.h"
#include "retile/types/text.h"
#include "tests/fuzz/require.h"

namespace retile::fuzz {
namespace {

void check_placement(const DistributedType& type) {
  const Placement placement(type);
  require(is_on_grid(placement), "a type's boxes lie on its grid");
  require(is_balanced(placement), "a type's tiles have equally many holders");
  if (type.rank() == 0) return;
  std::vector<std::int64_t> corners;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Shape corner = placement.offset(device);
    corners.insert(corners.end(), corner.begin(), corner.end());
  }
  const Placement table(placement.global_shape(), placement.local_shape(), corners);
  const auto found = find_type(type.mesh(), table);
  require(found && same_placement(*found, type), "a type is found again from its corners");
}

void check_type(const DistributedType& type) {
  require(parse_type(to_string(type), type.mesh()) == type, "a type parses back: " + to_string(type));
  const DistributedType primes = split_into_primes(type);
  require(same_placement(primes, type), "splitting an axis moves nothing");
  require(merge_neighbours(primes) == type, "and joining it again undoes the split");
  if (type.mesh().device_count() <= 64) check_placement(type);
}

}  // namespace
}  // namespace retile::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace retile;
  const std::string text = fuzz::text_of(data, size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  const auto mesh = fuzz::try_parse([&] { return parse_mesh(SourceText{"mesh", text.substr(0, line)}); });
  if (!mesh) return 0;
  fuzz::require(parse_mesh(to_string(*mesh)) == *mesh, "a mesh parses back: " + to_string(*mesh));
  const auto type = fuzz::try_parse([&] { return parse_type(SourceText{"type", text.substr(line)}, *mesh); });
  if (type) fuzz::check_type(*type);
  return 0;
}
