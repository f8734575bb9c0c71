#include "evaluation/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "retile/base/arithmetic.h"
#include "retile/types/text.h"

namespace retile::evaluation {
namespace {

using AxisLists = std::vector<std::vector<AxisPart>>;

Mesh mesh_of(const std::vector<std::int64_t>& sizes) {
  constexpr std::size_t letters = 26;
  if (sizes.size() > letters) throw InputError(fmt::format("{} axes are more than letters", sizes.size()), {});
  std::vector<Axis> axes;
  for (const std::int64_t size : sizes) {
    axes.push_back({std::string(1, static_cast<char>('a' + axes.size())), size});
  }
  return Mesh(std::move(axes));
}

class Sampler {
 public:
  Sampler(const SampleOptions& options, std::int64_t number)
      : options_(options), mesh_(mesh_of(options.axes)), random_(seed_of(options.seed, number)) {}

  // Draws a problem; nothing where rounding to whole tiles left the range of sizes.
  std::optional<Problem> draw(const std::string& id) {
    const std::size_t ranks =
        static_cast<std::size_t>(options_.most_rank) - static_cast<std::size_t>(options_.least_rank) + 1;
    const std::size_t rank = static_cast<std::size_t>(options_.least_rank) + below(ranks);
    const AxisLists source = draw_axes(rank);
    const AxisLists target = draw_axes(rank);
    const std::optional<Shape> shape = draw_shape(source, target);
    if (!shape) return std::nullopt;
    return Problem(id, DistributedType::cut(mesh_, *shape, source), DistributedType::cut(mesh_, *shape, target),
                   options_.element_type);
  }

 private:
  static std::mt19937_64::result_type seed_of(std::uint64_t seed, std::int64_t number) {
    std::seed_seq sequence{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U),
                           static_cast<std::uint32_t>(number),
                           static_cast<std::uint32_t>(static_cast<std::uint64_t>(number) >> 32U)};
    std::uint32_t words[2];
    sequence.generate(words, words + 2);
    return (std::uint64_t{words[0]} << 32U) | words[1];
  }

  // Own distributions, because the standard's differ between libraries. The bias of a remainder does not matter here.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  double uniform(double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(random_() >> 11U), -53);
  }

  AxisLists draw_axes(std::size_t rank) {
    AxisLists layout(rank);
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      const std::size_t dimension = below(rank + 1);
      if (dimension == rank) continue;  // replicated
      std::vector<AxisPart>& list = layout[dimension];
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(below(list.size() + 1)), mesh_.whole(axis));
    }
    return layout;
  }

  std::optional<Shape> draw_shape(const AxisLists& source, const AxisLists& target) {
    const auto element = static_cast<double>(bytes_of(options_.element_type));
    const double least = static_cast<double>(options_.least_bytes) / element;
    const double most = static_cast<double>(options_.most_bytes) / element;
    const double size = std::exp(uniform(std::log(least), std::log(most)));
    std::vector<double> weights(source.size());
    for (double& weight : weights) weight = uniform(0.5, 1.5);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    Shape shape(source.size());
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const std::int64_t unit = std::lcm(tiles(source[i]), tiles(target[i]));
      const double wanted = std::pow(size, weights[i] / sum) / static_cast<double>(unit);
      shape[i] = unit * std::max<std::int64_t>(1, std::llround(wanted));
    }
    const auto elements = checked_product(shape);
    const bool fits = elements && static_cast<double>(*elements) >= least && static_cast<double>(*elements) <= most;
    return fits ? std::optional(std::move(shape)) : std::nullopt;
  }

  static std::int64_t tiles(const std::vector<AxisPart>& axes) {
    std::int64_t count = 1;
    for (const AxisPart& axis : axes) count *= axis.size;
    return count;
  }

  const SampleOptions& options_;
  const Mesh mesh_;
  std::mt19937_64 random_;
};

void require_possible(const SampleOptions& options) {
  const auto require = [](bool holds, const char* message) {
    if (!holds) throw InputError(message, {});
  };
  require(1 <= options.least_rank && options.least_rank <= options.most_rank, "the least rank is above the most");
  require(bytes_of(options.element_type) <= options.least_bytes && options.least_bytes <= options.most_bytes,
          "the least size is above the most, or below one element");
}

AxisLists axes_of(const DistributedType& type) {
  AxisLists layout;
  for (const Dimension& dimension : type.dimensions()) layout.push_back(dimension.axes);
  return layout;
}

}  // namespace

Problem sample_problem(const SampleOptions& options, std::int64_t number) {
  require_possible(options);
  const std::string id = fmt::format("sample-{:04}", number);
  Sampler sampler(options, number);
  constexpr int most_tries = 10000;
  for (int tries = 0; tries < most_tries; ++tries) {
    if (auto problem = sampler.draw(id)) return std::move(*problem);
  }
  throw InputError("no array of such a size can be cut along the axes of the mesh", "widen the range of sizes");
}

Problem scale_problem(const Problem& problem, double factor) {
  if (factor >= 1) return problem;
  const TypedProblem ends = require_typed(problem);
  Shape shape = ends.source().global_shape();
  Shape units(shape.size());  // the smallest sizes that both ends can be cut from
  double size = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::int64_t source_tile = ends.source().dimension(static_cast<int>(i)).tile;
    const std::int64_t target_tile = ends.target().dimension(static_cast<int>(i)).tile;
    units[i] = std::lcm(shape[i] / source_tile, shape[i] / target_tile);
    size *= static_cast<double>(shape[i]);
  }
  for (double left = size; left > size * factor;) {
    std::size_t largest = 0;
    for (std::size_t i = 1; i < shape.size(); ++i) {
      largest = shape[i] / units[i] > shape[largest] / units[largest] ? i : largest;
    }
    const std::int64_t count = shape.empty() ? 1 : shape[largest] / units[largest];
    if (count == 1) break;
    const std::int64_t half = count / 2;
    left *= static_cast<double>(half) / static_cast<double>(count);
    shape[largest] = half * units[largest];
  }
  return {problem.id(), DistributedType::cut(ends.mesh(), shape, axes_of(ends.source())),
          DistributedType::cut(ends.mesh(), shape, axes_of(ends.target())), problem.element_type()};
}

std::vector<Problem> adversarial_problems() {
  const Mesh mesh = parse_mesh("a=2,b=2,c=2");
  const auto problem = [&](const char* id, const char* source, const char* target) {
    return Problem(id, parse_type(source, mesh), parse_type(target, mesh));
  };
  return {problem("P1", "[360, 184{c}368, 320]", "[90{c,a}360, 368, 160{b}320]"),
          problem("P2", "[80, 40{c}80, 72, 64]", "[40{b}80, 80, 36{c}72, 64]"),
          problem("P3", "[296, 360, 156{c}312]", "[74{b,c}296, 180{a}360, 312]"),
          problem("P4", "[8{c}16, 16, 16, 8{a}16, 16, 8{b}16]", "[16, 16, 16, 16, 16, 8{a}16]")};
}

}  // namespace retile::evaluation
