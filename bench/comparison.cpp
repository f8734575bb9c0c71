#include "bench/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace retile::bench {
namespace {

constexpr std::int64_t grain = 8;  // sizes stay multiples of it, so that every layout over 8 devices divides them

}  // namespace

Problem shrink(const Problem& problem, std::int64_t scale) {
  const auto rank = static_cast<double>(problem.source().rank());
  const double factor = std::pow(static_cast<double>(scale), 1.0 / rank);
  const auto shrunk = [&](const DistributedType& type) {
    Shape shape;
    std::vector<std::vector<AxisPart>> axes;
    for (const Dimension& dimension : type.dimensions()) {
      const double tiles = static_cast<double>(dimension.global) / factor / static_cast<double>(grain);
      shape.push_back(grain * std::max<std::int64_t>(1, std::llround(tiles)));
      axes.push_back(dimension.axes);
    }
    return DistributedType::cut(type.mesh(), shape, axes);
  };
  return {problem.id(), shrunk(problem.source()), shrunk(problem.target()), problem.element_type()};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double RatioSummary::geometric_mean() const {
  double sum = 0;
  for (const double ratio : ratios_) sum += std::log(ratio);
  return std::exp(sum / static_cast<double>(std::max<std::size_t>(1, ratios_.size())));
}

std::string RatioSummary::text() const {
  if (ratios_.empty()) return "no problems";
  const auto [least, most] = std::minmax_element(ratios_.begin(), ratios_.end());
  return fmt::format("geometric mean {:5.2f}, least {:5.2f}, most {:5.2f}", geometric_mean(), *least, *most);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown processor";
}

}  // namespace retile::bench
