// Transport problems: which row ships how many units to which column, so that the gains are largest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace retile {

// What one unit gains that goes from a row to a column.
struct TransportGain {
  std::size_t row = 0;
  std::size_t column = 0;
  std::int64_t gain = 0;   // positive
  std::int64_t first = 0;  // units that are shipped here before others, where that is as good
};

// Units that a row does not ship gain nothing, so a pair that is not listed is as good as one that gains 0.
struct TransportProblem {
  std::vector<std::int64_t> supplies;  // units of each row
  std::vector<std::int64_t> demands;   // units that each column takes at most
  std::vector<TransportGain> gains;    // no pair twice; four times the largest fits in 63 bits
};

struct Transport {
  std::vector<std::int64_t> units;  // shipped, by entry of `gains`
  std::int64_t total = 0;           // gained by them
  // The certificate: prices of a unit of each row and column.
  std::vector<std::int64_t> row_prices;
  std::vector<std::int64_t> column_prices;
};

// The transport that gains the most; the same one in every run. The total fits in 63 bits.
Transport best_transport(const TransportProblem& problem);

// Whether the transport keeps to supplies and demands, and its prices prove that none gains more: none is negative, no
// gain is above the prices of its row and column together, and all units at their prices are worth the total.
bool is_proved(const TransportProblem& problem, const Transport& transport);

}  // namespace retile
