// Tables of tiles and tables of digits answer the same questions, each in its own way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/grids/digit_table.h"
#include "retile/grids/tile_table.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/problems.h"

namespace retile::test {
namespace {

using ::testing::ElementsAre;

// --- Grids.

TEST(Grid, counts_tiles_along_each_dimension) {
  const DistributedType type = parse_type("[2{b}6, 4{a}8, 5]", parse_mesh("a=2,b=3"));
  EXPECT_THAT(grid_of(type), ElementsAre(3, 2, 1));
  EXPECT_THAT(tile_shape({6, 8, 5}, grid_of(type)), ElementsAre(2, 4, 5));
}

TEST(Grid, numbers_tiles_in_row_major_order) {
  const Grid grid{2, 3, 4};
  std::int64_t number = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 0; k < 4; ++k) EXPECT_EQ(tile_number(grid, Shape{i, j, k}.data()), number++);
    }
  }
}

TEST(Grid, intervals_of_tiles_meet_where_they_overlap) {
  EXPECT_EQ(tile_interval(2, 3).lo, 6);
  EXPECT_EQ(tile_interval(2, 3).hi, 9);
  EXPECT_EQ(intersect(tile_interval(1, 4), tile_interval(2, 3)).size(), 2);
  EXPECT_EQ(intersect(tile_interval(0, 4), tile_interval(2, 3)).size(), 0);
}

TEST(Grid, moves_go_through_the_merged_grid) {
  const Move move{0, 2, 4};
  EXPECT_THAT(merged_grid({8, 3, 2}, move), ElementsAre(2, 3, 2));
  EXPECT_THAT(grid_after({8, 3, 2}, move), ElementsAre(2, 3, 8));
  EXPECT_THAT(common_grid({8, 3, 2}, {2, 6, 8}), ElementsAre(2, 3, 2));
}

// --- Tables of tiles.

TEST(TileTable, numbers_the_tiles_of_every_device) {
  const TileTable table = tile_table(parse_type("[2{b}6, 4{a}8]", parse_mesh("a=2,b=3")));
  EXPECT_EQ(table.grid, (Grid{3, 2}));
  EXPECT_EQ(table.tiles, (std::vector<std::int32_t>{0, 0, 1, 0, 2, 0, 0, 1, 1, 1, 2, 1}));
  EXPECT_EQ(table.device_count(), 6U);
  EXPECT_EQ(table.number(4), 1 * 2 + 1);
}

TEST(TileTable, is_the_same_of_a_type_and_of_its_boxes) {
  for (const Mesh& mesh : all_meshes(8)) {
    const Shape global = divisible_shape(mesh, 2);
    for (const DistributedType& type : all_types(mesh, global)) {
      const TileTable table = tile_table(type);
      const Placement boxes = placement_of(global, table);
      EXPECT_EQ(boxes, Placement(type)) << to_string(type);
      EXPECT_EQ(boxes.type(), nullptr);
      EXPECT_EQ(tile_table(boxes), table) << to_string(type);
    }
  }
}

TEST(TileTable, knows_the_least_that_a_device_keeps) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  const auto kept = [&](const char* before, const char* after) {
    return least_kept({4, 4}, tile_table(parse_type(before, mesh)), tile_table(parse_type(after, mesh)));
  };
  EXPECT_EQ(kept("[2{a}4, 4]", "[2{a}4, 4]"), 8);
  EXPECT_EQ(kept("[2{a}4, 4]", "[4, 2{a}4]"), 4);
  EXPECT_EQ(kept("[2{a}4, 4]", "[2{b}4, 4]"), 0);
}

// Device 0 wishes for what is out of its reach: it must not take what device 1 wishes for.
TEST(TileTable, deals_first_to_those_whose_wishes_can_be_met) {
  const TileTable halves{{2}, {0, 0, 1, 1}};
  const TileTable wish{{4}, {2, 0, 3, 2}};
  EXPECT_EQ(deal_toward(halves, {4}, wish), (TileTable{{4}, {1, 0, 3, 2}}));
}

// --- The same answers.

struct Question {
  Mesh mesh;
  Shape global;
  DistributedType held;
  DistributedType wish;
};

// On meshes of a single prime, where both kinds of tables are defined.
std::vector<Question> random_questions(std::uint32_t seed) {
  RandomProblems random(seed);
  std::vector<Question> questions;
  for (const char* text : {"a=2,b=2", "a=2,b=4,c=2", "a=9,b=3", "a=5,b=5", "a=16"}) {
    const Mesh mesh = parse_mesh(text);
    for (int i = 0; i < 100; ++i) {
      const Shape global = divisible_shape(mesh, 1 + i % 3);
      questions.push_back({mesh, global, random.type(mesh, global), random.type(mesh, global)});
    }
  }
  return questions;
}

std::string describe(const Question& question) {
  return to_string(question.held) + " toward " + to_string(question.wish) + " on " + to_string(question.mesh);
}

std::int64_t prime_of(const Mesh& mesh) { return mesh.prime_parts().front().size; }

// A grid with some cuts taken away.
Grid random_coarser(RandomProblems& random, Grid grid, std::int64_t prime) {
  for (std::int64_t& tiles : grid) {
    while (tiles > 1 && random.number(2) == 0) tiles /= prime;
  }
  return grid;
}

// A grid with some more cuts, as many as the devices suffice for.
Grid random_finer(RandomProblems& random, Grid grid, const Mesh& mesh) {
  const std::int64_t prime = prime_of(mesh);
  while (product(grid) * prime <= mesh.device_count() && random.number(4) != 0)
    grid[random.number(grid.size())] *= prime;
  return grid;
}

bool is_within(const Placement& inner, const Placement& outer) {
  for (Device device = 0; device < inner.device_count(); ++device) {
    if (!contains(outer.box(device), inner.box(device))) return false;
  }
  return true;
}

// A table of the grid whose tiles have equally many holders.
template <typename Table>
void expect_even(const Shape& global, const Table& table, const Grid& grid) {
  EXPECT_EQ(grid_of(table), grid);
  const Placement boxes = placement_of(global, table);
  EXPECT_EQ(boxes.local_shape(), tile_shape(global, grid));
  EXPECT_TRUE(is_on_grid(boxes));
  EXPECT_TRUE(is_balanced(boxes));
}

TEST(Tables, of_a_type_are_its_boxes) {
  for (const Question& question : random_questions(1)) {
    EXPECT_EQ(grid_of(digit_table(question.held)), grid_of(question.held)) << describe(question);
    EXPECT_EQ(placement_of(question.global, digit_table(question.held)), Placement(question.held))
        << describe(question);
    EXPECT_NE(placement_of(question.global, digit_table(question.held)).type(), nullptr);
  }
}

TEST(Tables, coarsen_to_the_tiles_that_hold_their_own) {
  RandomProblems random(2);
  for (const Question& question : random_questions(2)) {
    const Grid grid = random_coarser(random, grid_of(question.held), prime_of(question.mesh));
    const TileTable tiles = coarsen(tile_table(question.held), grid);
    const DigitTable digits = coarsen(digit_table(question.held), grid);
    expect_even(question.global, tiles, grid);
    EXPECT_EQ(placement_of(question.global, digits), placement_of(question.global, tiles)) << describe(question);
    EXPECT_TRUE(is_within(Placement(question.held), placement_of(question.global, tiles))) << describe(question);
  }
}

template <typename Table>
void expect_dealt_toward(const Question& question, const Table& held, const Table& wish, const Grid& grid) {
  const Table dealt = deal_toward(held, grid, wish);
  expect_even(question.global, dealt, grid);
  EXPECT_TRUE(is_within(placement_of(question.global, dealt), Placement(question.held)));
  ASSERT_FALSE(::testing::Test::HasFailure()) << describe(question) << to_string(grid);
}

TEST(Tables, deal_evenly_within_what_is_held) {
  RandomProblems random(3);
  for (const Question& question : random_questions(3)) {
    const Grid grid = random_finer(random, grid_of(question.held), question.mesh);
    expect_dealt_toward(question, tile_table(question.held), tile_table(question.wish), grid);
    expect_dealt_toward(question, digit_table(question.held), digit_table(question.wish), grid);
  }
}

// Where what is wished for lies within what is held, both deal just that.
TEST(Tables, deal_what_is_wished_for_where_they_can) {
  RandomProblems random(4);
  for (const Question& question : random_questions(4)) {
    const Grid coarse = random_coarser(random, grid_of(question.wish), prime_of(question.mesh));
    const Grid wished = grid_of(question.wish);
    const TileTable tiles = tile_table(question.wish);
    const DigitTable digits = digit_table(question.wish);
    EXPECT_EQ(deal_toward(coarsen(tiles, coarse), wished, tiles), tiles) << describe(question);
    EXPECT_EQ(deal_toward(coarsen(digits, coarse), wished, digits), digits) << describe(question);
  }
}

// Two tables that each coarsen a third: what lies in both is dealt evenly, and is what was asked for at its own grid.
TEST(Tables, deal_what_lies_in_two_tiles) {
  RandomProblems random(5);
  for (const Question& question : random_questions(5)) {
    const Grid grid = grid_of(question.held);
    const Grid first = random_coarser(random, grid, prime_of(question.mesh));
    const Grid second = random_coarser(random, grid, prime_of(question.mesh));
    const auto check = [&](const auto& table, const auto& wish) {
      const auto one = coarsen(table, first);
      const auto other = coarsen(table, second);
      const auto dealt = deal(one, other, grid, wish);
      expect_even(question.global, dealt, grid);
      EXPECT_EQ(coarsen(dealt, first), one) << describe(question);
      EXPECT_EQ(coarsen(dealt, second), other) << describe(question);
      EXPECT_EQ(deal(one, table, grid, wish), table) << describe(question);
    };
    check(tile_table(question.held), tile_table(question.wish));
    check(digit_table(question.held), digit_table(question.wish));
  }
}

TEST(Tables, recut_what_a_move_merges) {
  RandomProblems random(6);
  int moves = 0;
  for (const Question& question : random_questions(6)) {
    const Grid grid = grid_of(question.held);
    const std::size_t from = random.number(grid.size());
    const std::size_t to = random.number(grid.size());
    if (from == to || grid[from] == 1) continue;
    const Move move{static_cast<int>(from), static_cast<int>(to), prime_of(question.mesh)};
    const auto check = [&](const auto& held, const auto& wish) {
      const auto after = recut(held, move, wish);
      expect_even(question.global, after, grid_after(grid, move));
      EXPECT_EQ(coarsen(after, merged_grid(grid, move)), coarsen(held, merged_grid(grid, move))) << describe(question);
    };
    check(tile_table(question.held), tile_table(question.wish));
    check(digit_table(question.held), digit_table(question.wish));
    ++moves;
  }
  EXPECT_GT(moves, 100);
}

}  // namespace
}  // namespace retile::test
