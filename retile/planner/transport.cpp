#include "retile/planner/transport.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "retile/base/list.h"

namespace retile {
namespace {

constexpr std::size_t none = SIZE_MAX;

// Successive shortest paths with prices. Invariants:
//   - the slack of an entry, row price + column price - gain, is not negative, and is 0 where units are shipped
//   - a column with room has price 0
//   - prices of rows only fall, down to 0; a row that is done has shipped everything or has price 0
class Shipping {
 public:
  explicit Shipping(const TransportProblem& problem)
      : gains_(problem.gains),
        left_(problem.supplies),
        room_(problem.demands),
        units_(gains_.size()),
        row_prices_(left_.size()),
        column_prices_(room_.size()),
        entries_of_(left_.size()),
        shipped_to_(room_.size()) {
    for (std::size_t i = 0; i < gains_.size(); ++i) {
      entries_of_[gains_[i].row].push_back(i);
      std::int64_t& price = row_prices_[gains_[i].row];
      price = std::max(price, gains_[i].gain);
    }
  }

  Transport ship() {
    for (std::size_t i = 0; i < gains_.size(); ++i) {
      const std::int64_t units = std::min({gains_[i].first, left_[gains_[i].row], room_[gains_[i].column]});
      if (units > 0 && slack(i) == 0) ship_more(i, units);
    }
    for (std::size_t row = 0; row < left_.size(); ++row) {
      while (left_[row] > 0 && row_prices_[row] > 0) ship_from(row);
    }
    Transport transport{units_, 0, row_prices_, column_prices_};
    for (std::size_t i = 0; i < gains_.size(); ++i) transport.total += units_[i] * gains_[i].gain;
    return transport;
  }

 private:
  std::int64_t slack(std::size_t entry) const {
    return row_prices_[gains_[entry].row] + column_prices_[gains_[entry].column] - gains_[entry].gain;
  }

  // Ships more units by this entry, which uses up the row's supply and the column's room.
  void ship_more(std::size_t entry, std::int64_t units) {
    if (units_[entry] == 0) shipped_to_[gains_[entry].column].push_back(entry);
    units_[entry] += units;
    left_[gains_[entry].row] -= units;
    room_[gains_[entry].column] -= units;
  }

  void ship_less(std::size_t entry, std::int64_t units) {
    units_[entry] -= units;
    if (units_[entry] == 0) std::erase(shipped_to_[gains_[entry].column], entry);
    left_[gains_[entry].row] += units;
    room_[gains_[entry].column] += units;
  }

  // The end of a path: a column with room, or a row whose units are better left unshipped.
  struct End {
    std::int64_t distance = std::numeric_limits<std::int64_t>::max();
    std::size_t entry = none;  // the entry that leads to the column; none: the path ends at the row
    std::size_t row = none;
  };

  // Ships units of the row where they gain the most. Rows on the path may ship to other columns instead.
  void ship_from(std::size_t start) {
    const End end = find_path(start);
    for (const auto& [column, distance] : reached_columns_) {
      if (distance < end.distance) column_prices_[column] += end.distance - distance;
    }
    for (const auto& [row, distance] : reached_rows_) {
      if (distance < end.distance) row_prices_[row] -= end.distance - distance;
    }
    if (end.row == start && end.entry == none) return;  // its price is 0 now
    std::vector<std::size_t> more;  // entries of the path that ship more; those in between ship less
    std::vector<std::size_t> less;
    if (end.entry != none) more.push_back(end.entry);
    for (std::size_t row = end.row; row != start;) {
      less.push_back(entry_to_row_[row]);
      more.push_back(entry_to_column_[gains_[less.back()].column]);
      row = gains_[more.back()].row;
    }
    std::int64_t units = left_[start];
    if (end.entry != none) units = std::min(units, room_[gains_[end.entry].column]);
    for (const std::size_t entry : less) units = std::min(units, units_[entry]);
    for (const std::size_t entry : less) ship_less(entry, units);
    for (const std::size_t entry : more) ship_more(entry, units);
  }

  // Dijkstra's algorithm over slacks, from the row to the nearest end.
  End find_path(std::size_t start) {
    entry_to_column_.assign(room_.size(), none);
    entry_to_row_.assign(left_.size(), none);
    distances_.assign(room_.size(), std::numeric_limits<std::int64_t>::max());
    reached_columns_.clear();
    reached_rows_.clear();
    waiting_ = {};
    End end;
    scan_row(start, 0, end);
    while (!waiting_.empty() && waiting_.top().first < end.distance) {
      const auto [distance, column] = waiting_.top();
      waiting_.pop();
      if (distance > distances_[column]) continue;  // it was since reached on a shorter path
      reached_columns_.emplace_back(column, distance);
      for (const std::size_t entry : shipped_to_[column]) {
        const std::size_t row = gains_[entry].row;
        if (row == start || entry_to_row_[row] != none) continue;
        entry_to_row_[row] = entry;
        scan_row(row, distance, end);
      }
    }
    return end;
  }

  void scan_row(std::size_t row, std::int64_t distance, End& end) {
    reached_rows_.emplace_back(row, distance);
    if (distance + row_prices_[row] < end.distance) end = {distance + row_prices_[row], none, row};
    for (const std::size_t entry : entries_of_[row]) {
      if (end.distance <= distance) return;  // no other end is nearer
      const std::size_t column = gains_[entry].column;
      const std::int64_t next = distance + slack(entry);
      if (next >= end.distance || next >= distances_[column]) continue;
      if (room_[column] > 0) {
        end = {next, entry, row};
        continue;
      }
      distances_[column] = next;
      entry_to_column_[column] = entry;
      waiting_.emplace(next, column);
    }
  }

  const std::vector<TransportGain>& gains_;
  std::vector<std::int64_t> left_;  // by row: units not shipped yet
  std::vector<std::int64_t> room_;  // by column: units that it can still take
  std::vector<std::int64_t> units_;
  std::vector<std::int64_t> row_prices_;
  std::vector<std::int64_t> column_prices_;
  std::vector<std::vector<std::size_t>> entries_of_;  // by row
  std::vector<std::vector<std::size_t>> shipped_to_;  // by column: entries with units

  // State of the search for a path: the entries by which columns and rows were reached, and their distances.
  using Reached = std::pair<std::size_t, std::int64_t>;
  std::vector<std::size_t> entry_to_column_;
  std::vector<std::size_t> entry_to_row_;
  std::vector<std::int64_t> distances_;  // by column
  std::vector<Reached> reached_columns_;
  std::vector<Reached> reached_rows_;
  using Waiting = std::pair<std::int64_t, std::size_t>;  // distance, column
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
};

}  // namespace

Transport best_transport(const TransportProblem& problem) { return Shipping(problem).ship(); }

bool is_proved(const TransportProblem& problem, const Transport& transport) {
  std::vector<std::int64_t> left = problem.supplies;
  std::vector<std::int64_t> room = problem.demands;
  std::int64_t gained = 0;
  for (std::size_t i = 0; i < problem.gains.size(); ++i) {
    const TransportGain& entry = problem.gains[i];
    if (transport.units[i] < 0) return false;
    if (transport.row_prices[entry.row] + transport.column_prices[entry.column] < entry.gain) return false;
    left[entry.row] -= transport.units[i];
    room[entry.column] -= transport.units[i];
    gained += transport.units[i] * entry.gain;
  }
  const auto has_negative = [](const std::vector<std::int64_t>& list) {
    return std::any_of(list.begin(), list.end(), [](std::int64_t value) { return value < 0; });
  };
  if (has_negative(left) || has_negative(room)) return false;
  if (has_negative(transport.row_prices) || has_negative(transport.column_prices)) return false;
  std::int64_t worth = 0;
  for (std::size_t i = 0; i < left.size(); ++i) worth += problem.supplies[i] * transport.row_prices[i];
  for (std::size_t i = 0; i < room.size(); ++i) worth += problem.demands[i] * transport.column_prices[i];
  return gained == transport.total && worth == transport.total;
}

}  // namespace retile
