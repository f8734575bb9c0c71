// Transport problems: which row ships how many units to which column, so that the gains are largest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace retile {

// The gain of one unit that goes from a row to a column.
struct TransportGain {
  std::size_t row = 0;
  std::size_t column = 0;
  std::int64_t gain = 0;   // positive
  std::int64_t first = 0;  // units that go here first, among transports of equal gain
};

// A transport problem. A unit that is not shipped gains nothing, so a pair that is not listed is as good as one with
// gain 0.
struct TransportProblem {
  std::vector<std::int64_t> supplies;  // units of each row
  std::vector<std::int64_t> demands;   // the most units that each column takes
  std::vector<TransportGain> gains;    // no pair twice; four times the largest fits in 63 bits
};

struct Transport {
  std::vector<std::int64_t> units;  // units shipped, by index into `gains`
  std::int64_t total = 0;           // their gain
  // The certificate: prices of a unit of each row and column.
  std::vector<std::int64_t> row_prices;
  std::vector<std::int64_t> column_prices;
};

// The transport with the largest gain; every run finds the same one. The total must fit in 63 bits.
Transport best_transport(const TransportProblem& problem);

// Whether the transport keeps to supplies and demands, and its prices prove that none gains more: no price is negative,
// no gain exceeds the sum of its row's and column's prices, and all units at their prices are worth the total.
bool is_proved(const TransportProblem& problem, const Transport& transport);

}  // namespace retile
