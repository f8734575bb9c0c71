// What benchmarks of engines share: medians, and summaries of ratios.
#pragma once

#include <string>
#include <vector>

namespace retile::bench {

double median(std::vector<double> values);

// "geometric mean  1.31, least  0.90, most  2.40".
class RatioSummary {
 public:
  void add(double ratio) { ratios_.push_back(ratio); }
  double geometric_mean() const;
  std::string text() const;

 private:
  std::vector<double> ratios_;
};

std::string processor_name();

}  // namespace retile::bench
