#include "retile/transfer/plan.h"

#include <utility>

namespace retile::transfer {
namespace {

std::vector<StreamPlan::ArrayClass> classes_of(const Manifest& manifest) {
  const std::int64_t world = manifest.device_count();
  std::vector<StreamPlan::ArrayClass> classes;
  for (const Problem& problem : manifest.problems) {
    const MovedArray array = moved_array(problem.target());
    classes.push_back({problem.source().placement(world, array),
                       problem.target().placement(world, array),
                       bytes_of(problem.element_type()),
                       {}});
  }
  for (std::size_t i = 0; i < manifest.arrays.size(); ++i) classes[manifest.arrays[i].problem].arrays.push_back(i);
  return classes;
}

}  // namespace

TransferPlan::TransferPlan(Manifest manifest, std::int64_t max_bytes, Hosts hosts, TileUse sources)
    : StreamPlan(classes_of(manifest), manifest.device_count(), max_bytes, std::move(hosts), sources),
      manifest_(std::move(manifest)) {}

}  // namespace retile::transfer
