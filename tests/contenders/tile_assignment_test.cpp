#include "retile/contenders/tile_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "retile/types/text.h"
#include "tests/support/enumerate.h"

namespace retile::test {
namespace {

using namespace contenders;

using ::testing::ElementsAre;

TileAssignment assignment(const char* mesh, const char* type) {
  return assignment_of(parse_type(type, parse_mesh(mesh)));
}

TEST(TileAssignment, lists_devices_tile_by_tile) {
  const TileAssignment found = assignment("a=2,b=3", "[4{a}8, 2{b}6]");
  EXPECT_THAT(found.counts, ElementsAre(2, 3));
  EXPECT_EQ(found.replicas, 1);
  EXPECT_THAT(found.devices, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(assignment("a=2,b=3", "[2{b}6, 4{a}8]").devices, ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(TileAssignment, lists_replicas_in_ascending_order) {
  const TileAssignment found = assignment("a=2,b=3", "[2{b}6]");
  EXPECT_EQ(found.replicas, 2);
  EXPECT_THAT(found.devices, ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(TileAssignment, knows_replication) {
  EXPECT_TRUE(assignment("a=2,b=2", "[8]").is_replicated());
  EXPECT_FALSE(assignment("a=2,b=2", "[8]").is_partial());
  EXPECT_TRUE(assignment("a=2,b=2", "[4{a}8]").is_partial());
  EXPECT_FALSE(assignment("a=2,b=2", "[2{a,b}8]").is_partial());
}

RC_GTEST_PROP(TileAssignment, places_what_the_type_places, ()) {
  const Mesh mesh = *arbitrary_mesh();
  const Shape global = divisible_shape(mesh, *rc::gen::inRange(1, 4));
  const DistributedType type = *arbitrary_type(mesh, global);
  RC_ASSERT(placement_of(assignment_of(type), global) == Placement(type));
}

// --- Moves.

TEST(TileAssignment, gathers_minor_digits) {
  const std::vector<Move> moves{{0, -1, 2}};
  EXPECT_EQ(after_moves(assignment("a=2,b=2", "[2{a,b}8]"), moves), assignment("a=2,b=2", "[4{b}8]"));
  EXPECT_THAT(groups_along(assignment("a=2,b=2", "[2{a,b}8]"), moves),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(TileAssignment, slices_replicas_in_order_of_dimensions) {
  const std::vector<Move> moves{{-1, 0, 2}, {-1, 1, 3}};
  EXPECT_EQ(after_moves(assignment("a=2,b=3,c=2", "[12, 12]"), moves), assignment("a=2,b=3,c=2", "[6{a}12, 4{b}12]"));
  EXPECT_EQ(after_moves(assignment("a=2,b=3", "[6{a}12, 12]"), std::vector<Move>{{-1, 0, 3}}),
            assignment("a=2,b=3", "[2{b,a}12, 12]"));
}

TEST(TileAssignment, moves_minor_digits_to_become_minor_ones) {
  const std::vector<Move> moves{{0, 1, 2}};
  const TileAssignment before = assignment("a=2,b=2,c=2", "[2{a,b}8, 4{c}8]");
  EXPECT_EQ(after_moves(before, moves), assignment("a=2,b=2,c=2", "[4{b}8, 2{a,c}8]"));
  EXPECT_THAT(groups_along(before, moves),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5), ElementsAre(2, 6), ElementsAre(3, 7)));
}

TEST(TileAssignment, moves_several_digits_at_once) {
  const std::vector<Move> moves{{0, 2, 2}, {1, 3, 2}};
  const TileAssignment before = assignment("a=2,b=2", "[4{a}8, 4{b}8, 8, 8]");
  EXPECT_EQ(after_moves(before, moves), assignment("a=2,b=2", "[8, 8, 4{a}8, 4{b}8]"));
  EXPECT_THAT(groups_along(before, moves), ElementsAre(ElementsAre(0, 1, 2, 3)));
}

// Devices of a group are replicas of the same number.
TEST(TileAssignment, groups_replicas_apart) {
  EXPECT_THAT(groups_along(assignment("a=2,b=2", "[4{b}8]"), std::vector<Move>{{0, -1, 2}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

// --- Other shapes and groups.

TEST(TileAssignment, splits_and_merges_dimensions) {
  const TileAssignment whole = assignment("a=2,b=3", "[2{a,b}12, 5]");
  const TileAssignment split = with_split(whole, 0, 3);
  EXPECT_THAT(split.counts, ElementsAre(3, 2, 1));
  EXPECT_EQ(with_merged(split, 0), whole);
}

TEST(TileAssignment, renames_devices) {
  EXPECT_THAT(with_renamed_devices(assignment("a=2,b=2", "[4{a}8]"), {3, 1, 0, 2}).devices, ElementsAre(1, 3, 0, 2));
}

TEST(TileAssignment, groups_by_dimensions) {
  const GroupedAssignment grouped = group_by(assignment("a=2,b=2,c=2", "[4{a}8, 4{b}8, 4{c}8]"), {0, 2});
  EXPECT_THAT(grouped.counts, ElementsAre(2, 2));
  EXPECT_THAT(grouped.groups, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(grouped.inside.counts, ElementsAre(1, 2, 1));
  EXPECT_THAT(grouped.inside.devices, ElementsAre(0, 1));
}

RC_GTEST_PROP(TileAssignment, ungroups_what_it_grouped, ()) {
  const Mesh mesh = *arbitrary_mesh();
  const Shape global = divisible_shape(mesh, 3);
  const TileAssignment whole = assignment_of(*arbitrary_type(mesh, global));
  const std::vector<std::vector<std::size_t>> choices{{0}, {1}, {2}, {0, 2}};
  const GroupedAssignment grouped = group_by(whole, *rc::gen::elementOf(choices));
  RC_ASSERT(ungroup(grouped, grouped.inside) == whole);
}

}  // namespace
}  // namespace retile::test
