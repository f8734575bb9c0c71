#include "bench/sample_problems.h"

#include <fmt/format.h>

#include <optional>
#include <random>
#include <utility>

#include "retile/base/error.h"

namespace retile::bench {
namespace {

class Sampler {
 public:
  explicit Sampler(const ProblemFamily& family) : family_(family), mesh_(mesh_of(family)), random_(family.seed) {}

  Problem problem(std::size_t number) {
    DistributedType source = type();
    DistributedType target = type();
    return {fmt::format("{}-{:04}", family_.name, number), std::move(source), std::move(target)};
  }

 private:
  static Mesh mesh_of(const ProblemFamily& family) {
    ensure(family.axes.size() <= 26, "a family's axes are called by letters");
    std::vector<Axis> axes;
    for (const std::int64_t size : family.axes) {
      axes.push_back({std::string(1, static_cast<char>('a' + axes.size())), size});
    }
    return Mesh(std::move(axes));
  }

  // std::uniform_int_distribution differs between standard libraries; the bias of a remainder does not matter here.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

  DistributedType type() {
    constexpr int most_tries = 1000;
    for (int tries = 0; tries < most_tries; ++tries) {
      if (auto found = try_type()) return std::move(*found);
    }
    throw InternalError("a family's shape must be divisible by its axes");
  }

  std::optional<DistributedType> try_type() {
    std::vector<std::vector<AxisPart>> axes(family_.shape.size());
    Shape tile = family_.shape;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      const std::size_t dimension = below(axes.size() + 1);
      if (dimension == axes.size()) continue;  // replicated
      std::vector<AxisPart>& list = axes[dimension];
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)), mesh_.whole(axis));
      if (tile[dimension] % mesh_.axis(axis).size != 0) return std::nullopt;
      tile[dimension] /= mesh_.axis(axis).size;
    }
    return DistributedType::cut(mesh_, family_.shape, axes);
  }

  const ProblemFamily& family_;
  const Mesh mesh_;
  std::mt19937_64 random_;
};

}  // namespace

std::vector<Problem> sample_problems(const ProblemFamily& family) {
  Sampler sampler(family);
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < family.count; ++i) problems.push_back(sampler.problem(i));
  return problems;
}

}  // namespace retile::bench
