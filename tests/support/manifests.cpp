#include "tests/support/manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "retile/types/element_type.h"
#include "tests/support/layouts.h"

namespace retile::test {
namespace {

using DeviceBits = std::uint32_t;

// Who holds each element, in row-major order.
std::vector<DeviceBits> holders_of(const Placement& placement) {
  const std::int64_t world = placement.device_count();
  const Shape& shape = placement.global_shape();
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  std::vector<DeviceBits> holders(static_cast<std::size_t>(count));
  for (Device device = 0; device < world; ++device) {
    for (const Part& part : placement.parts(device)) {
      for (std::int64_t element = 0; element < count; ++element) {
        std::int64_t rest = element;
        bool is_inside = true;
        for (std::size_t i = shape.size(); i-- > 0; rest /= shape[i]) {
          const std::int64_t at = rest % shape[i];
          is_inside = is_inside && part.box.lo[i] <= at && at < part.box.hi[i];
        }
        if (is_inside) holders[static_cast<std::size_t>(element)] |= DeviceBits{1} << static_cast<unsigned>(device);
      }
    }
  }
  return holders;
}

// visit(holders, devices that want, bytes) for every element of every array.
template <typename Visit>
void for_each_element(const transfer::Manifest& manifest, Visit visit) {
  const std::int64_t world = manifest.device_count();
  for (const transfer::NamedArray& array : manifest.arrays) {
    const Problem& problem = manifest.problems[array.problem];
    const std::vector<DeviceBits> before = holders_of(problem.source().inside(world));
    const std::vector<DeviceBits> after = holders_of(problem.target().placement(world));
    for (std::size_t i = 0; i < before.size(); ++i) visit(before[i], after[i], bytes_of(problem.element_type()));
  }
}

// Without ghost zones, which may cross into a host more than once, and in the order that in place needs.
Problem any_transferred(RandomProblems& random, std::int64_t world) {
  while (true) {
    Problem problem = any_problem(random, world);
    if (problem.target().halo().empty() && problem.source().order().empty() && problem.target().order().empty()) {
      return problem;
    }
  }
}

}  // namespace

transfer::Manifest any_manifest(RandomProblems& random) {
  return any_manifest(random, static_cast<std::int64_t>(1 + random.number(8)));
}

transfer::Manifest any_manifest(RandomProblems& random, std::int64_t world) {
  // One array that is on all devices.
  const Mesh all({{"a", world}});
  const DistributedType cut = DistributedType::cut(all, {world}, {{all.whole(0)}});
  std::vector<std::pair<std::string, Problem>> arrays{{"all", Problem("", cut, cut)}};
  const std::size_t kinds = 1 + random.number(6);
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const Problem shape = any_transferred(random, world);
    const std::vector<ElementType> types{ElementType::boolean, ElementType::bf16, ElementType::u32, ElementType::c128};
    const Problem problem("", shape.source(), shape.target(), random.pick(types));
    const std::size_t layers = 1 + random.number(4);
    for (std::size_t layer = 0; layer < layers; ++layer)
      arrays.emplace_back(fmt::format("{}.{}", kind, layer), problem);
  }
  return transfer::make_manifest(arrays);
}

std::vector<std::int64_t> lacking_bytes(const transfer::Manifest& manifest) {
  std::vector<std::int64_t> lacking(static_cast<std::size_t>(manifest.device_count()));
  for_each_element(manifest, [&](DeviceBits before, DeviceBits after, std::int64_t bytes) {
    for (std::size_t i = 0; i < lacking.size(); ++i) lacking[i] += ((after & ~before) >> i & 1U) == 1 ? bytes : 0;
  });
  return lacking;
}

std::int64_t least_busiest(const transfer::Manifest& manifest) {
  std::map<DeviceBits, std::int64_t> supplies;
  for_each_element(manifest, [&](DeviceBits before, DeviceBits after, std::int64_t bytes) {
    supplies[before] += bytes * __builtin_popcount(after & ~before);
  });
  std::int64_t least = 0;
  for (DeviceBits set = 1; set < DeviceBits{1} << static_cast<unsigned>(manifest.device_count()); ++set) {
    std::int64_t bytes = 0;
    for (const auto& [holders, supply] : supplies) bytes += (holders & ~set) == 0 ? supply : 0;
    const std::int64_t devices = __builtin_popcount(set);
    least = std::max(least, (bytes + devices - 1) / devices);
  }
  return least;
}

std::vector<std::int64_t> crossing_bytes(const transfer::Manifest& manifest, const std::vector<std::int64_t>& hosts) {
  std::map<std::int64_t, DeviceBits> members;
  for (std::size_t i = 0; i < hosts.size(); ++i) members[hosts[i]] |= DeviceBits{1} << i;
  std::map<std::int64_t, std::int64_t> crossing;
  for (const auto& [host, devices] : members) crossing[host] = 0;
  for_each_element(manifest, [&](DeviceBits before, DeviceBits after, std::int64_t bytes) {
    for (const auto& [host, devices] : members) {
      if ((before & devices) == 0 && (after & devices) != 0) crossing[host] += bytes;
    }
  });
  std::vector<std::int64_t> list;
  for (const auto& [host, bytes] : crossing) list.push_back(bytes);
  return list;
}

}  // namespace retile::test
