#include "bench/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace retile::bench {

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
