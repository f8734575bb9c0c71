#include "retile/types/placement.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <map>

#include "retile/base/error.h"
#include "retile/types/layout.h"
#include "retile/types/text.h"
#include "tests/support/enumerate.h"
#include "tests/support/small_types.h"

namespace retile {
namespace {

using Table = std::vector<std::int64_t>;

Table corners_of(const Placement& placement) {
  Table corners;
  for (Device device = 0; device < placement.device_count(); ++device) {
    const Shape corner = placement.offset(device);
    corners.insert(corners.end(), corner.begin(), corner.end());
  }
  return corners;
}

// The placement without its type.
Placement as_table(const Placement& placement) {
  return {placement.global_shape(), placement.local_shape(), corners_of(placement)};
}

Placement placed(const Mesh& mesh, std::string_view text) { return Placement(parse_type(text, mesh)); }

// Every table that puts some tile of the grid on each of the devices.
void for_each_table(const Shape& global, const Shape& local, int devices,
                    const std::function<void(const Placement&)>& visit) {
  std::vector<Shape> tiles{Shape()};
  for (std::size_t i = 0; i < global.size(); ++i) {
    std::vector<Shape> longer;
    for (const Shape& tile : tiles) {
      for (std::int64_t corner = 0; corner < global[i]; corner += local[i]) {
        longer.push_back(tile);
        longer.back().push_back(corner);
      }
    }
    tiles = std::move(longer);
  }
  std::vector<std::size_t> choice(static_cast<std::size_t>(devices), 0);
  for (bool more = true; more;) {
    Table table;
    for (const std::size_t tile : choice) table.insert(table.end(), tiles[tile].begin(), tiles[tile].end());
    visit(Placement(global, local, std::move(table)));
    more = false;
    for (std::size_t device = 0; device < choice.size() && !more; ++device) {
      more = ++choice[device] < tiles.size();
      if (!more) choice[device] = 0;
    }
  }
}

TEST(Placement, of_a_type) {
  const Mesh mesh = parse_mesh("x=2,y=2");
  const Placement placement = placed(mesh, "[4{y}8, 6]");
  EXPECT_EQ(placement.global_shape(), (Shape{8, 6}));
  EXPECT_EQ(placement.local_shape(), (Shape{4, 6}));
  EXPECT_EQ(placement.local_size(), 24);
  EXPECT_EQ(placement.rank(), 2);
  EXPECT_EQ(placement.device_count(), 4);
  EXPECT_EQ(placement.offset(3), (Shape{4, 0}));
  EXPECT_EQ(placement.box(3), (Box{{4, 0}, {8, 6}}));
  EXPECT_EQ(*placement.type(), parse_type("[4{y}8, 6]", mesh));
}

TEST(Placement, of_a_table) {
  const Placement placement({8, 6}, {4, 6}, {0, 0, 4, 0, 0, 0, 4, 0});
  EXPECT_EQ(placement.local_size(), 24);
  EXPECT_EQ(placement.device_count(), 4);
  EXPECT_EQ(placement.offset(1), (Shape{4, 0}));
  EXPECT_EQ(placement.box(1), (Box{{4, 0}, {8, 6}}));
  EXPECT_EQ(placement.type(), nullptr);
}

TEST(Placement, of_rank_0_needs_a_type) {
  const Placement scalar = placed(parse_mesh("x=3"), "[]");
  EXPECT_EQ(scalar.local_size(), 1);
  EXPECT_EQ(scalar.device_count(), 3);
  EXPECT_EQ(scalar.box(2), (Box{{}, {}}));
  EXPECT_TRUE(is_on_grid(scalar));
  EXPECT_TRUE(is_balanced(scalar));
  EXPECT_THROW(Placement({}, {}, std::vector<std::int64_t>{}), InternalError);
}

TEST(Placement, of_a_table_needs_whole_corners) {
  EXPECT_THROW(Placement({8, 6}, {4, 6}, {0, 0, 4}), InternalError);
  EXPECT_THROW(Placement({8, 6}, {4}, {0, 0}), InternalError);
}

TEST(Placement, is_equal_as_table_and_as_type) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    const Placement placement(type);
    ASSERT_EQ(placement, as_table(placement)) << to_string(type);
    ASSERT_EQ(as_table(placement), placement) << to_string(type);
    ASSERT_EQ(as_table(placement), as_table(placement)) << to_string(type);
  });
}

TEST(Placement, is_not_equal_where_one_device_holds_another_box) {
  const Placement placement = placed(parse_mesh("x=4"), "[2{x}8]");
  for (Device device = 0; device < 4; ++device) {
    Table corners = corners_of(placement);
    corners[static_cast<std::size_t>(device)] ^= 2;
    EXPECT_FALSE(placement == Placement({8}, {2}, corners));
    EXPECT_FALSE(Placement({8}, {2}, corners) == as_table(placement));
  }
}

TEST(Placement, is_not_equal_to_one_of_other_shapes_or_devices) {
  const Placement placement({8}, {2}, {0, 2});
  EXPECT_FALSE(placement == Placement({16}, {2}, {0, 2}));
  EXPECT_FALSE(placement == Placement({8}, {1}, {0, 2}));
  EXPECT_FALSE(placement == Placement({8}, {2}, {0, 2, 4}));
  EXPECT_FALSE(placement == Placement({8, 1}, {2, 1}, {0, 0, 2, 0}));
}

TEST(Placement, compares_types_on_different_meshes_by_their_boxes) {
  const Placement one_axis = placed(parse_mesh("x=4"), "[2{x}8]");
  const Mesh mesh = parse_mesh("a=2,b=2");
  EXPECT_TRUE(one_axis == placed(mesh, "[2{b,a}8]"));
  EXPECT_FALSE(one_axis == placed(mesh, "[2{a,b}8]"));
  EXPECT_FALSE(one_axis == placed(mesh, "[4{b}8]"));
}

TEST(IsOnGrid, holds_for_every_type) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    ASSERT_TRUE(is_on_grid(Placement(type))) << to_string(type);
    ASSERT_TRUE(is_on_grid(as_table(Placement(type)))) << to_string(type);
  });
}

TEST(IsOnGrid, fails_for_corners_off_the_grid) {
  EXPECT_TRUE(is_on_grid({{8, 6}, {4, 3}, {4, 0, 0, 3}}));
  EXPECT_FALSE(is_on_grid({{8, 6}, {4, 3}, {4, 0, 2, 3}}));
  EXPECT_FALSE(is_on_grid({{8, 6}, {4, 3}, {4, 0, 0, 6}}));
  EXPECT_FALSE(is_on_grid({{8, 6}, {4, 3}, {-4, 0, 0, 3}}));
}

TEST(IsOnGrid, fails_for_shapes_that_make_no_grid) {
  EXPECT_FALSE(is_on_grid({{8}, {3}, {0, 3}}));
  EXPECT_FALSE(is_on_grid({{8}, {0}, {0, 0}}));
  EXPECT_FALSE(is_on_grid({{8}, {-4}, {0, 4}}));
  EXPECT_FALSE(is_on_grid({{8}, {16}, {0, 0}}));
}

TEST(IsBalanced, holds_for_every_type) {
  test::for_each_small_type(
      12, [](const DistributedType& type) { ASSERT_TRUE(is_balanced(Placement(type))) << to_string(type); });
}

TEST(IsBalanced, holds_where_every_tile_has_equally_many_holders) {
  const auto expect_agreement = [](const Shape& global, const Shape& local, int devices) {
    for_each_table(global, local, devices, [&](const Placement& placement) {
      std::map<Shape, int> holders;
      for (Device device = 0; device < devices; ++device) ++holders[placement.offset(device)];
      std::int64_t tiles = 1;
      for (std::size_t i = 0; i < global.size(); ++i) tiles *= global[i] / local[i];
      bool balanced = static_cast<std::int64_t>(holders.size()) == tiles;
      for (const auto& [corner, count] : holders) balanced = balanced && count == holders.begin()->second;
      ASSERT_EQ(is_balanced(placement), balanced) << testing::PrintToString(corners_of(placement));
    });
  };
  expect_agreement({4}, {2}, 4);
  expect_agreement({4}, {1}, 4);
  expect_agreement({4, 4}, {2, 2}, 4);
  expect_agreement({6}, {2}, 6);
  expect_agreement({6}, {2}, 4);
}

TEST(FindType, finds_a_type_for_the_table_of_every_type) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    const auto found = find_type(type.mesh(), as_table(Placement(type)));
    ASSERT_TRUE(found && same_placement(*found, type)) << to_string(type);
  });
}

TEST(FindType, finds_a_type_on_meshes_with_mixed_primes_and_axes_of_size_1) {
  for (const char* text : {"a=4,b=6", "one=1,a=6,two=1,b=2", "a=30"}) {
    const Mesh mesh = parse_mesh(text);
    const Shape global = test::divisible_shape(mesh, 2);
    for (const DistributedType& type : test::all_prime_types(mesh, global)) {
      ASSERT_EQ(find_type(mesh, as_table(Placement(type))), type) << to_string(type);
    }
    for (const DistributedType& type : test::all_types(mesh, global)) {
      const auto found = find_type(mesh, as_table(Placement(type)));
      ASSERT_TRUE(found && same_placement(*found, type)) << to_string(type);
      ASSERT_EQ(find_type(mesh, Placement(type)), type) << to_string(type);
    }
  }
}

RC_GTEST_PROP(FindType, finds_a_type_for_the_table_of_a_random_type, ()) {
  const Mesh mesh = *test::arbitrary_mesh();
  const DistributedType type = *test::arbitrary_type(mesh, test::divisible_shape(mesh, *rc::gen::inRange(1, 5)));
  RC_ASSERT(find_type(mesh, as_table(Placement(type))) == type);
}

TEST(FindType, finds_nothing_where_devices_are_permuted_beyond_digits) {
  const Mesh mesh = parse_mesh("a=4");
  const auto text = [&](const Table& corners) {
    const auto found = find_type(mesh, Placement({4}, {1}, corners));
    return found ? to_string(*found) : "none";
  };
  EXPECT_EQ(text({0, 1, 2, 3}), "[1{a}4]");
  EXPECT_EQ(text({0, 2, 1, 3}), "[1{a:(1)2,a:(2)2}4]");
  EXPECT_EQ(text({0, 1, 3, 2}), "none");
  EXPECT_EQ(text({1, 0, 3, 2}), "none");  // a type puts the first tile on device 0
  EXPECT_EQ(text({0, 0, 0, 0}), "none");
}

TEST(FindType, finds_nothing_where_one_digit_cuts_two_dimensions) {
  EXPECT_EQ(find_type(parse_mesh("a=2"), Placement({4, 4}, {2, 2}, {0, 0, 2, 2})), std::nullopt);
}

TEST(FindType, finds_nothing_off_the_grid) {
  const Mesh mesh = parse_mesh("a=2");
  EXPECT_EQ(find_type(mesh, Placement({4}, {2}, {0, 3})), std::nullopt);
  EXPECT_EQ(find_type(mesh, Placement({4}, {2}, {0, -2})), std::nullopt);
  EXPECT_EQ(find_type(mesh, Placement({4}, {0}, {0, 2})), std::nullopt);
  EXPECT_EQ(find_type(mesh, Placement({4}, {3}, {0, 3})), std::nullopt);
}

// Every box of a small matrix, against all parts of every device.
void expect_parts_around_boxes(const Placement& placement) {
  std::vector<Box> boxes{{{}, {}}};
  for (const std::int64_t size : placement.global_shape()) {
    std::vector<Box> longer;
    for (Box box : boxes) {
      box.lo.push_back(0);
      box.hi.push_back(0);
      for (box.lo.back() = 0; box.lo.back() < size; ++box.lo.back()) {
        for (box.hi.back() = box.lo.back() + 1; box.hi.back() <= size; ++box.hi.back()) longer.push_back(box);
      }
    }
    boxes = std::move(longer);
  }
  for (const Box& box : boxes) {
    for (Device device = 0; device < placement.device_count(); ++device) {
      std::optional<Part> expected;
      for (const Part& part : placement.parts(device)) {
        if (contains(part.box, box)) expected = part;
      }
      ASSERT_EQ(placement.part_around(device, box), expected) << to_string(box) << " on device " << device;
    }
  }
}

TEST(Placement, finds_the_part_around_a_box) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  expect_parts_around_boxes(placed(mesh, "[4{a}8, 3{b}6]"));
  expect_parts_around_boxes(as_table(placed(mesh, "[4{a}8, 3{b}6]")));
  expect_parts_around_boxes(parse_layout("[4{a}7, 3{b}5]", mesh).placement());
  expect_parts_around_boxes(parse_layout("[2*1{a}2*2, 3*1{b}2*1]", mesh).placement());
}

TEST(Placement, finds_the_part_around_a_box_whatever_the_order_of_parts) {
  const std::vector<Part> rows{packed_part({{2, 0}, {4, 4}}), packed_part({{0, 1}, {2, 4}}),
                               packed_part({{0, 0}, {2, 1}})};
  expect_parts_around_boxes(Placement({4, 4}, {rows, {rows[2], rows[1], rows[0]}, {}}));
  // The last corner before the box's is not of the part around it.
  expect_parts_around_boxes(Placement({4, 4}, {{packed_part({{0, 2}, {4, 4}}), packed_part({{1, 0}, {2, 2}})}}));
}

// Exactly the tables of the mesh's types are found to be of a type, among all tables on the grid.
void expect_found_tables_are_those_of_types(const Mesh& mesh, const Shape& global, const Shape& local) {
  std::map<Table, DistributedType> types;
  for (const DistributedType& type : test::all_prime_types(mesh, global)) {
    if (type.local_shape() == local) types.emplace(corners_of(Placement(type)), type);
  }
  std::size_t found_count = 0;
  for_each_table(global, local, static_cast<int>(mesh.device_count()), [&](const Placement& placement) {
    const auto found = find_type(mesh, placement);
    const auto expected = types.find(corners_of(placement));
    ASSERT_EQ(found.has_value(), expected != types.end()) << testing::PrintToString(corners_of(placement));
    if (!found) return;
    ASSERT_EQ(*found, expected->second) << to_string(*found);
    ++found_count;
  });
  EXPECT_EQ(found_count, types.size());
}

TEST(FindType, finds_nothing_for_any_other_table) {
  for (const char* text : {"a=4", "a=2,b=2"}) {
    const Mesh mesh = parse_mesh(text);
    expect_found_tables_are_those_of_types(mesh, {4}, {1});
    expect_found_tables_are_those_of_types(mesh, {4}, {2});
    expect_found_tables_are_those_of_types(mesh, {4}, {4});
    expect_found_tables_are_those_of_types(mesh, {2, 4}, {1, 2});
  }
  for (const char* text : {"a=6", "a=3,b=2", "one=1,a=2,b=3"}) {
    expect_found_tables_are_those_of_types(parse_mesh(text), {6}, {1});
    expect_found_tables_are_those_of_types(parse_mesh(text), {6}, {3});
    expect_found_tables_are_those_of_types(parse_mesh(text), {2, 3}, {1, 1});
  }
}

TEST(FindType, describes_a_type_on_another_mesh) {
  const Mesh mesh = parse_mesh("a=2,b=2");
  EXPECT_EQ(find_type(mesh, placed(parse_mesh("x=4"), "[2{x}8]")), parse_type("[2{b,a}8]", mesh));
  EXPECT_EQ(find_type(mesh, placed(parse_mesh("x=4"), "[]")), parse_type("[]", mesh));
}

TEST(FindType, needs_as_many_devices) {
  EXPECT_THROW(find_type(parse_mesh("a=2"), Placement({4}, {2}, {0, 2, 0, 2})), InternalError);
}

TEST(PlacementText, is_the_types_where_there_is_one) {
  const Mesh mesh = parse_mesh("a=4");
  EXPECT_EQ(to_string(mesh, placed(mesh, "[2{a}8, 3]")), "[2{a}8, 3]");
  EXPECT_EQ(to_string(mesh, as_table(placed(mesh, "[2{a}8, 3]"))), "[2{a}8, 3]");
}

TEST(PlacementText, is_local_shape_and_tile_counts_where_there_is_none) {
  EXPECT_EQ(to_string(parse_mesh("a=4"), Placement({4, 4}, {4, 1}, {0, 0, 0, 1, 0, 3, 0, 2})),
            "local [4, 1], tiles [1, 4]");
}

}  // namespace
}  // namespace retile
