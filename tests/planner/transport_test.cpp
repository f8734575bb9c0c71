#include "retile/planner/transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/problems.h"

namespace retile {
namespace {

using test::RandomProblems;

// The most that is gained, by trying everything: units of the first row go anywhere, or nowhere, then those of the
// next.
std::int64_t most_gained(const TransportProblem& problem, std::size_t row, std::int64_t left,
                         std::vector<std::int64_t>& room) {
  if (row == problem.supplies.size()) return 0;
  if (left == 0) {
    const std::size_t next = row + 1;
    return most_gained(problem, next, next < problem.supplies.size() ? problem.supplies[next] : 0, room);
  }
  std::int64_t most = most_gained(problem, row, left - 1, room);
  for (const TransportGain& entry : problem.gains) {
    if (entry.row != row || room[entry.column] == 0) continue;
    --room[entry.column];
    most = std::max(most, entry.gain + most_gained(problem, row, left - 1, room));
    ++room[entry.column];
  }
  return most;
}

std::int64_t most_gained(const TransportProblem& problem) {
  std::vector<std::int64_t> room = problem.demands;
  return problem.supplies.empty() ? 0 : most_gained(problem, 0, problem.supplies[0], room);
}

TransportProblem random_problem(RandomProblems& random, std::size_t most_units, std::size_t most_gain) {
  TransportProblem problem;
  problem.supplies.resize(1 + random.number(3));
  problem.demands.resize(1 + random.number(4));
  for (std::int64_t& units : problem.supplies) units = static_cast<std::int64_t>(random.number(most_units + 1));
  for (std::int64_t& units : problem.demands) units = static_cast<std::int64_t>(random.number(most_units + 1));
  for (std::size_t row = 0; row < problem.supplies.size(); ++row) {
    for (std::size_t column = 0; column < problem.demands.size(); ++column) {
      if (random.number(4) == 0) continue;
      problem.gains.push_back({row, column, static_cast<std::int64_t>(1 + random.number(most_gain)),
                               static_cast<std::int64_t>(random.number(2))});
    }
  }
  return problem;
}

TEST(Transports, gain_the_most_and_prove_it) {
  RandomProblems random(5);
  for (int i = 0; i < 3000; ++i) {
    const TransportProblem problem = random_problem(random, i % 3 == 0 ? 1 : 3, i % 2 == 0 ? 3 : 100);
    const Transport transport = best_transport(problem);
    EXPECT_EQ(transport.total, most_gained(problem));
    EXPECT_TRUE(is_proved(problem, transport));
  }
}

// Six rows and columns, each taken once: all permutations.
TEST(Transports, assign_rows_to_columns) {
  RandomProblems random(6);
  for (int i = 0; i < 200; ++i) {
    TransportProblem problem{std::vector<std::int64_t>(6, 1), std::vector<std::int64_t>(6, 1), {}};
    std::vector<std::vector<std::int64_t>> gains(6, std::vector<std::int64_t>(6));
    for (std::size_t row = 0; row < 6; ++row) {
      for (std::size_t column = 0; column < 6; ++column) {
        gains[row][column] = static_cast<std::int64_t>(random.number(i % 2 == 0 ? 3 : 50));
        if (gains[row][column] > 0) problem.gains.push_back({row, column, gains[row][column], 0});
      }
    }
    std::vector<std::size_t> columns{0, 1, 2, 3, 4, 5};
    std::int64_t most = 0;
    do {
      std::int64_t gained = 0;
      for (std::size_t row = 0; row < 6; ++row) gained += gains[row][columns[row]];
      most = std::max(most, gained);
    } while (std::next_permutation(columns.begin(), columns.end()));
    const Transport transport = best_transport(problem);
    EXPECT_EQ(transport.total, most);
    EXPECT_TRUE(is_proved(problem, transport));
  }
}

TEST(Transports, ship_first_what_is_to_go_first) {
  const TransportProblem problem{{1, 1}, {1, 1}, {{0, 0, 5, 0}, {1, 0, 5, 0}, {0, 1, 5, 1}, {1, 1, 5, 0}}};
  EXPECT_EQ(best_transport(problem).units, (std::vector<std::int64_t>{0, 1, 1, 0}));
}

TEST(Transports, that_ship_nothing_are_proved) {
  for (const TransportProblem& problem :
       {TransportProblem{}, TransportProblem{{2}, {3}, {}}, TransportProblem{{0}, {1}, {{0, 0, 7, 0}}}}) {
    EXPECT_EQ(best_transport(problem).total, 0);
    EXPECT_TRUE(is_proved(problem, best_transport(problem)));
  }
}

TEST(Transports, are_not_proved_by_wrong_prices_or_units) {
  const TransportProblem problem{{1, 2}, {2, 1}, {{0, 0, 5, 0}, {1, 0, 4, 0}, {1, 1, 3, 0}}};
  const Transport right = best_transport(problem);
  EXPECT_EQ(right.total, 12);
  ASSERT_TRUE(is_proved(problem, right));
  const auto is_proved_with = [&](const auto& change) {
    Transport wrong = right;
    change(wrong);
    return is_proved(problem, wrong);
  };
  EXPECT_FALSE(is_proved_with([](Transport& wrong) { ++wrong.total; }));
  EXPECT_FALSE(is_proved_with([](Transport& wrong) { ++wrong.row_prices[0]; }));
  EXPECT_FALSE(is_proved_with([](Transport& wrong) { --wrong.row_prices[0]; }));
  EXPECT_FALSE(is_proved_with([](Transport& wrong) { ++wrong.column_prices[1]; }));
  EXPECT_FALSE(is_proved_with([](Transport& wrong) { ++wrong.units[0]; }));
  EXPECT_FALSE(is_proved_with([](Transport& wrong) { --wrong.units[2]; }));
  EXPECT_FALSE(is_proved_with([](Transport& wrong) {  // more than the row has, and worth as much
    wrong.units = {3, 0, -1};
  }));
}

}  // namespace
}  // namespace retile
