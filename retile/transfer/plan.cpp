#include "retile/transfer/plan.h"

#include <fmt/format.h>

#include <utility>

#include "retile/base/diagnostic.h"
#include "retile/planner/periods.h"

namespace retile::transfer {
namespace {

// In place, sources drain in the order in which targets fill: both lie row-major. Throws InputError.
void require_row_major(const Manifest& manifest) {
  for (const NamedArray& array : manifest.arrays) {
    const Problem& problem = manifest.problems[array.problem];
    if (problem.source().order().empty() && problem.target().order().empty()) continue;
    throw InputError(
        fmt::format("array \"{}\" has an order of dimensions in memory: in place, tiles are row-major", array.name),
        "leave the order out, or keep the sources");
  }
}

std::vector<StreamPlan::ArrayClass> classes_of(const Manifest& manifest, TileUse sources) {
  if (sources == TileUse::donated) require_row_major(manifest);
  const std::int64_t world = manifest.device_count();
  std::vector<StreamPlan::ArrayClass> classes;
  for (const Problem& problem : manifest.problems) {
    const MovedArray array = array_of(problem, sources);
    classes.push_back({problem.source().inside(world, array),
                       problem.target().placement(world, array),
                       bytes_of(problem.element_type()),
                       {}});
  }
  for (std::size_t i = 0; i < manifest.arrays.size(); ++i) classes[manifest.arrays[i].problem].arrays.push_back(i);
  return classes;
}

}  // namespace

MovedArray array_of(const Problem& problem, TileUse sources) {
  return moved_array(problem.target(), sources == TileUse::donated ? std::vector<Shape>() : find_periods(problem));
}

TransferPlan::TransferPlan(Manifest manifest, std::int64_t max_bytes, Hosts hosts, TileUse sources,
                           const MessageForm& form)
    : StreamPlan(classes_of(manifest, sources), manifest.device_count(), max_bytes, std::move(hosts), sources, form),
      manifest_(std::move(manifest)) {}

}  // namespace retile::transfer
