#include "retile/types/distributed_type.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "retile/base/error.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/small_types.h"

namespace retile {
namespace {

using Parts = std::vector<AxisPart>;
using Offsets = std::vector<Shape>;

Offsets offsets_of(const DistributedType& type) {
  Offsets offsets;
  for (Device device = 0; device < type.mesh().device_count(); ++device) offsets.push_back(type.base_offset(device));
  return offsets;
}

std::string fault_of(const Mesh& mesh, const std::vector<Dimension>& dimensions) {
  return test::diagnostic_of([&] { return DistributedType(mesh, dimensions); });
}

// --- fig:dist-syntax

TEST(Paper, fig_dist_syntax_meta_functions) {
  const DistributedType type = parse_type("[8{x,y}64, 10, 3{z}6]", parse_mesh("x=2,y=4,z=2,free=6"));
  EXPECT_EQ(type.rank(), 3);
  EXPECT_EQ(type.global_shape(), (Shape{64, 10, 6}));
  EXPECT_EQ(type.local_shape(), (Shape{8, 10, 3}));
  EXPECT_EQ(type.global_size(), 3840);
  EXPECT_EQ(type.local_size(), 240);
  EXPECT_EQ(type.dimension(0).axes, (Parts{{0, 1, 2}, {1, 1, 4}}));
  EXPECT_TRUE(type.dimension(1).axes.empty());
}

TEST(DistributedType, uses_the_axes_that_cut_a_dimension) {
  const Mesh mesh = parse_mesh("x=2,y=12");
  const DistributedType type = parse_type("[8{y:(2)2}16, 3]", mesh);
  EXPECT_FALSE(type.uses(mesh.whole(0)));
  EXPECT_TRUE(type.uses(mesh.whole(1)));
  EXPECT_TRUE(type.uses({1, 2, 2}));
  EXPECT_TRUE(type.uses({1, 2, 6}));
  EXPECT_FALSE(type.uses({1, 1, 2}));
  EXPECT_FALSE(type.uses({1, 4, 3}));
  EXPECT_EQ(type.free_primes(), (Parts{{0, 1, 2}, {1, 1, 2}, {1, 4, 3}}));
}

TEST(DistributedType, of_rank_0_is_one_element_everywhere) {
  const DistributedType scalar = parse_type("[]", parse_mesh("x=4"));
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.global_size(), 1);
  EXPECT_EQ(scalar.local_size(), 1);
  EXPECT_EQ(offsets_of(scalar), Offsets(4));
}

// --- fig:dist-type-semantics

// "[8{"x","y"}32] is first partitioned into 2 tiles over "y", and then each of these tiles is further
// partitioned into 2 tiles along "x"."
TEST(Paper, fig_dist_type_semantics_axes_are_minor_to_major) {
  const Mesh mesh = parse_mesh(R"({"x": 2, "y": 2})");
  EXPECT_EQ(offsets_of(parse_type(R"([8{"x","y"}32])", mesh)), (Offsets{{0}, {16}, {8}, {24}}));
  EXPECT_EQ(offsets_of(parse_type(R"([8{"y","x"}32])", mesh)), (Offsets{{0}, {8}, {16}, {24}}));
}

TEST(Paper, fig_multi_distributed) {
  const Mesh mesh = parse_mesh(R"({"xdev": 4, "ydev": 8})");
  const DistributedType left = parse_type(R"([64{"xdev"}256, 1024])", mesh);
  const DistributedType right = parse_type(R"([1024, 128{"ydev"}1024])", mesh);
  for (std::int64_t x = 0; x < 4; ++x) {
    for (std::int64_t y = 0; y < 8; ++y) {
      EXPECT_EQ(left.base_offset(x * 8 + y), (Shape{64 * x, 0}));
      EXPECT_EQ(right.base_offset(x * 8 + y), (Shape{0, 128 * y}));
    }
  }
}

TEST(Paper, fig_dist_type_semantics_of_three_axes_of_different_sizes) {
  const Mesh mesh = parse_mesh("x=2,y=3,z=5");
  const DistributedType type = parse_type("[7{z,x}70, 4{y}12]", mesh);
  for (Device device = 0; device < 30; ++device) {
    const std::int64_t x = device / 15;
    const std::int64_t y = device / 5 % 3;
    const std::int64_t z = device % 5;
    EXPECT_EQ(type.base_offset(device), (Shape{7 * z + 35 * x, 4 * y}));
  }
}

TEST(Paper, fig_dist_type_semantics_of_parts) {
  const Mesh mesh = parse_mesh("x=6");  // device = 3 · major + minor
  EXPECT_EQ(offsets_of(parse_type("[1{x}6]", mesh)), (Offsets{{0}, {1}, {2}, {3}, {4}, {5}}));
  EXPECT_EQ(offsets_of(parse_type("[1{x:(1)2,x:(2)3}6]", mesh)), (Offsets{{0}, {2}, {4}, {1}, {3}, {5}}));
  EXPECT_EQ(offsets_of(parse_type("[2{x:(2)3}6, 4{x:(1)2}8]", mesh)),
            (Offsets{{0, 0}, {2, 0}, {4, 0}, {0, 4}, {2, 4}, {4, 4}}));
}

// The definition, read from the page: D⟦c{x,x̄}n⟧ = c · i_x + D⟦(c·k){x̄}n⟧.
std::int64_t offset_by_definition(const Mesh& mesh, std::int64_t tile, std::span<const AxisPart> axes, Device device) {
  if (axes.empty()) return 0;
  return tile * mesh.coordinate(device, axes[0]) +
         offset_by_definition(mesh, tile * axes[0].size, axes.subspan(1), device);
}

TEST(Paper, fig_dist_type_semantics_of_every_small_type) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    for (Device device = 0; device < type.mesh().device_count(); ++device) {
      Shape expected;
      for (const Dimension& dimension : type.dimensions()) {
        expected.push_back(offset_by_definition(type.mesh(), dimension.tile, dimension.axes, device));
      }
      ASSERT_EQ(type.base_offset(device), expected) << to_string(type);
    }
  });
}

TEST(DistributedType, offsets_reach_beyond_32_bits) {
  const DistributedType type = parse_type("[2305843009213693952{x}6917529027641081856]", parse_mesh("x=3"));
  EXPECT_EQ(type.base_offset(2), Shape{4611686018427387904});
}

// --- fig:well-formed

TEST(Paper, fig_well_formed_wf_dim_needs_tile_times_axes_to_be_the_global_size) {
  const Mesh mesh = parse_mesh("x=2,y=3");
  const Parts both{mesh.whole(0), mesh.whole(1)};
  EXPECT_EQ(fault_of(mesh, {{4, both, 24}}), "no error");
  EXPECT_EQ(fault_of(mesh, {{4, both, 36}}),
            "error: tile and axes do not make the global size: 4 x 2 (x) x 3 (y) = 24, not 36\n"
            "hint: for 36 in all, the tile is 6\n");
  EXPECT_EQ(fault_of(mesh, {{4, both, 25}}),
            "error: tile and axes do not make the global size: 4 x 2 (x) x 3 (y) = 24, not 25\n"
            "hint: 25 does not divide into 6 tiles\n");
  EXPECT_EQ(fault_of(mesh, {{4, {}, 8}}),
            "error: tile size 4 and global size 8 differ, and no axis cuts the dimension\n");
}

TEST(Paper, fig_well_formed_wf_dim_needs_axes_of_the_mesh) {
  const Mesh mesh = parse_mesh("x=2,y=6");
  EXPECT_EQ(fault_of(mesh, {{4, {{2, 1, 2}}, 8}}), "error: an axis that the mesh does not have\n");
  EXPECT_EQ(fault_of(mesh, {{4, {{-1, 1, 2}}, 8}}), "error: an axis that the mesh does not have\n");
  EXPECT_EQ(fault_of(mesh, {{4, {{1, 3, 2}}, 8}}),
            "error: y:(3)2 is no part of axis y\n"
            "hint: from major to minor its parts are y:(1)2, y:(2)3; neighbours may be joined\n");
}

TEST(Paper, fig_well_formed_wf_dim_needs_distinct_axes) {
  const Mesh mesh = parse_mesh("x=2,y=12,one=1");
  EXPECT_EQ(fault_of(mesh, {{4, {mesh.whole(0), mesh.whole(0)}, 16}}),
            "error: axis x is used twice\n"
            "hint: an axis cuts at most one dimension, once\n");
  EXPECT_EQ(fault_of(mesh, {{4, {{1, 1, 4}, {1, 2, 6}}, 96}}),
            "error: y:(2)6 overlaps y:(1)4, which is used already\n"
            "hint: each part of an axis cuts at most one dimension, once\n");
  EXPECT_EQ(fault_of(mesh, {{4, {mesh.whole(2), mesh.whole(2)}, 4}}),
            "error: axis one is used twice\n"
            "hint: an axis cuts at most one dimension, once\n");
  EXPECT_EQ(fault_of(mesh, {{4, {{1, 1, 2}, {1, 4, 3}}, 24}}), "no error");
}

TEST(Paper, fig_well_formed_wf_type_needs_well_formed_dimensions) {
  const Mesh mesh = parse_mesh("x=2");
  const auto found = DistributedType::find_fault(mesh, std::vector<Dimension>{{3, {}, 3}, {3, {mesh.whole(0)}, 7}});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->dimension, 1);
  EXPECT_EQ(found->axis, -1);
}

TEST(Paper, fig_well_formed_wf_type_needs_disjoint_axes) {
  const Mesh mesh = parse_mesh("x=2,y=2");
  const std::vector<Dimension> dimensions{{4, {mesh.whole(0)}, 8}, {4, {mesh.whole(1), mesh.whole(0)}, 16}};
  const auto found = DistributedType::find_fault(mesh, dimensions);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->dimension, 1);
  EXPECT_EQ(found->axis, 1);
  EXPECT_EQ(fault_of(mesh, dimensions),
            "error: axis x is used twice\n"
            "hint: an axis cuts at most one dimension, once\n");
}

TEST(Paper, fig_well_formed_holds_for_every_small_type) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    ASSERT_FALSE(DistributedType::find_fault(type.mesh(), type.dimensions()).has_value()) << to_string(type);
    for (const Dimension& dimension : type.dimensions()) {
      std::int64_t whole = dimension.tile;
      for (const AxisPart& part : dimension.axes) whole *= part.size;
      ASSERT_EQ(whole, dimension.global);
    }
  });
}

TEST(DistributedType, needs_positive_sizes) {
  const Mesh mesh = parse_mesh("x=2");
  for (const Dimension& dimension : {Dimension{0, {}, 0}, Dimension{-4, {}, -4}, Dimension{0, {mesh.whole(0)}, 0}}) {
    EXPECT_EQ(fault_of(mesh, {dimension}),
              "error: a size is below 1\n"
              "hint: sizes start at 1\n");
  }
}

TEST(DistributedType, fits_in_63_bits) {
  const Mesh mesh = parse_mesh("x=2");
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(DistributedType(mesh, {{largest, {}, largest}, {1, {}, 1}}).global_size(), largest);
  EXPECT_EQ(fault_of(mesh, {{largest, {}, largest}, {2, {}, 2}}),
            "error: the number of elements of the global array does not fit in 63 bits\n");
  EXPECT_EQ(fault_of(mesh, {{largest, {mesh.whole(0)}, largest}}),
            "error: tile size times axes does not fit in 63 bits\n");
}

// --- the lemmas of sec:partir

TEST(Paper, lem_multiples_in_image) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    for (const Dimension& dimension : type.dimensions()) {
      std::set<std::int64_t> image;
      for (Device device = 0; device < type.mesh().device_count(); ++device) {
        image.insert(base_offset(type.mesh(), dimension, device));
      }
      std::set<std::int64_t> multiples;
      for (std::int64_t multiple = 0; multiple < dimension.global; multiple += dimension.tile)
        multiples.insert(multiple);
      ASSERT_EQ(image, multiples) << to_string(type);
    }
  });
}

// Every base offset that is componentwise below the global type.
std::set<Shape> offsets_below(const DistributedType& type) {
  std::set<Shape> offsets{Shape()};
  for (const Dimension& dimension : type.dimensions()) {
    std::set<Shape> longer;
    for (const Shape& offset : offsets) {
      for (std::int64_t multiple = 0; multiple < dimension.global; multiple += dimension.tile) {
        Shape next = offset;
        next.push_back(multiple);
        longer.insert(std::move(next));
      }
    }
    offsets = std::move(longer);
  }
  return offsets;
}

TEST(Paper, lem_base_offsets_in_image) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    const Offsets offsets = offsets_of(type);
    ASSERT_EQ(std::set<Shape>(offsets.begin(), offsets.end()), offsets_below(type)) << to_string(type);
  });
}

RC_GTEST_PROP(Paper, lem_base_offsets_in_image_at_random, ()) {
  const Mesh mesh = *test::arbitrary_mesh();
  const Shape global = test::divisible_shape(mesh, *rc::gen::inRange(0, 5));
  const DistributedType type = *test::arbitrary_type(mesh, global);
  const Offsets offsets = offsets_of(type);
  RC_ASSERT(std::set<Shape>(offsets.begin(), offsets.end()) == offsets_below(type));
}

// The footnote of sec:partir: replicas make the map a cover, and all tiles have equally many.
TEST(Paper, tiles_have_equally_many_replicas) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    std::map<Shape, std::int64_t> holders;
    for (const Shape& offset : offsets_of(type)) ++holders[offset];
    std::int64_t replicas = 1;
    for (const AxisPart& prime : type.free_primes()) replicas *= prime.size;
    for (const auto& [offset, count] : holders) ASSERT_EQ(count, replicas) << to_string(type);
  });
}

// --- equality, prime parts, placement

TEST(DistributedType, is_equal_however_neighbouring_parts_are_split) {
  const Mesh mesh = parse_mesh("x=12,y=2");
  const DistributedType whole = parse_type("[2{y,x}48]", mesh);
  EXPECT_EQ(whole, parse_type("[2{y,x:(4)3,x:(2)2,x:(1)2}48]", mesh));
  EXPECT_EQ(whole, parse_type("[2{y,x:(2)6,x:(1)2}48]", mesh));
  EXPECT_EQ(whole, parse_type("[2{y,x:(4)3,x:(1)4}48]", mesh));
}

TEST(DistributedType, is_not_equal_where_anything_else_differs) {
  const Mesh mesh = parse_mesh("x=12,y=2,one=1");
  const DistributedType type = parse_type("[2{y,x}48]", mesh);
  for (const char* other : {"[2{x,y}48]", "[2{y,x}48, 1]", "[4{y,x}96]", "[4{x}48]", "[48]", "[2{y,x,one}48]",
                            "[2{y,x:(1)4,x:(4)3}48]", "[2{y,x:(2)2,x:(1)2,x:(4)3}48]"}) {
    EXPECT_NE(type, parse_type(other, mesh)) << other;
  }
  EXPECT_NE(type, parse_type("[2{y,x}48]", parse_mesh("y=2,x=12,one=1")));
}

TEST(DistributedType, splitting_and_merging_keep_type_and_offsets) {
  test::for_each_small_type(12, [](const DistributedType& type) {
    const DistributedType split = split_into_primes(type);
    const DistributedType merged = merge_neighbours(type);
    ASSERT_EQ(split, type) << to_string(type);
    ASSERT_EQ(merged, type) << to_string(type);
    ASSERT_EQ(offsets_of(split), offsets_of(type)) << to_string(type);
    ASSERT_EQ(offsets_of(merged), offsets_of(type)) << to_string(type);
    for (int i = 0; i < type.rank(); ++i) {
      ASSERT_EQ(merge_neighbours(split).dimension(i).axes, merged.dimension(i).axes) << to_string(type);
      ASSERT_EQ(split_into_primes(merged).dimension(i).axes, split.dimension(i).axes) << to_string(type);
    }
  });
}

// All pairs of types on the mesh with this global shape, against all base offsets and the local shape.
void expect_same_placement_is_equality_of_offsets(const Mesh& mesh, const Shape& global) {
  std::vector<DistributedType> types = test::all_types(mesh, global);
  for (DistributedType& type : test::all_prime_types(mesh, global)) types.push_back(std::move(type));
  std::vector<Offsets> offsets;
  for (const DistributedType& type : types) offsets.push_back(offsets_of(type));
  for (std::size_t i = 0; i < types.size(); ++i) {
    for (std::size_t j = 0; j < types.size(); ++j) {
      const bool same = offsets[i] == offsets[j] && types[i].local_shape() == types[j].local_shape();
      ASSERT_EQ(same_placement(types[i], types[j]), same) << to_string(types[i]) << " and " << to_string(types[j]);
    }
  }
}

TEST(SamePlacement, is_equality_of_base_offset_maps_on_every_small_mesh) {
  for (const Mesh& mesh : test::all_meshes(12)) {
    expect_same_placement_is_equality_of_offsets(mesh, test::divisible_shape(mesh, 1));
    expect_same_placement_is_equality_of_offsets(mesh, test::divisible_shape(mesh, 2));
  }
}

TEST(SamePlacement, is_equality_of_base_offset_maps_with_mixed_primes_and_axes_of_size_1) {
  for (const char* text : {"a=4,b=6", "a=6,b=4", "a=2,one=1,b=2", "one=1,a=6,two=1", "one=1,two=1"}) {
    const Mesh mesh = parse_mesh(text);
    expect_same_placement_is_equality_of_offsets(mesh, test::divisible_shape(mesh, 1));
    expect_same_placement_is_equality_of_offsets(mesh, test::divisible_shape(mesh, 2));
  }
  expect_same_placement_is_equality_of_offsets(parse_mesh("a=2,b=2,c=2"), {8, 8, 8});
}

TEST(SamePlacement, ignores_axes_of_size_1_alone) {
  const Mesh mesh = parse_mesh("x=2,one=1");
  EXPECT_TRUE(same_placement(parse_type("[4{one,x}8]", mesh), parse_type("[4{x}8]", mesh)));
  EXPECT_TRUE(same_placement(parse_type("[4{x}8, 3{one}3]", mesh), parse_type("[4{x,one}8, 3]", mesh)));
  EXPECT_NE(parse_type("[4{one,x}8]", mesh), parse_type("[4{x}8]", mesh));
}

TEST(SamePlacement, needs_equal_meshes_and_global_shapes) {
  const Mesh mesh = parse_mesh("x=2");
  EXPECT_FALSE(same_placement(parse_type("[4{x}8]", mesh), parse_type("[4{y}8]", parse_mesh("y=2"))));
  EXPECT_FALSE(same_placement(parse_type("[4{x}8]", mesh), parse_type("[8{x}16]", mesh)));
  EXPECT_FALSE(same_placement(parse_type("[4{x}8]", mesh), parse_type("[4{x}8, 1]", mesh)));
}

RC_GTEST_PROP(SamePlacement, is_equality_of_base_offset_maps_at_random, ()) {
  const Mesh mesh = *test::arbitrary_mesh();
  const Shape global = test::divisible_shape(mesh, *rc::gen::inRange(0, 4));
  const DistributedType a = *test::arbitrary_type(mesh, global);
  const DistributedType b = *rc::gen::oneOf(test::arbitrary_type(mesh, global), rc::gen::just(merge_neighbours(a)));
  RC_ASSERT(same_placement(a, b) == (offsets_of(a) == offsets_of(b) && a.local_shape() == b.local_shape()));
}

// --- cut

TEST(Cut, gives_the_tile_sizes_that_follow) {
  const Mesh mesh = parse_mesh("x=2,y=3");
  EXPECT_EQ(to_string(DistributedType::cut(mesh, {12, 5}, {{mesh.whole(1), mesh.whole(0)}, {}})), "[2{y,x}12, 5]");
  EXPECT_EQ(to_string(DistributedType::replicated(mesh, {12, 5})), "[12, 5]");
  EXPECT_EQ(to_string(DistributedType::replicated(mesh, {})), "[]");
}

TEST(Cut, reports_what_does_not_divide) {
  const Mesh mesh = parse_mesh("x=4");
  const auto cut = [&](std::int64_t global) {
    return test::diagnostic_of([&] { return DistributedType::cut(mesh, {global}, {{mesh.whole(0)}}); });
  };
  EXPECT_EQ(cut(10),
            "error: tile and axes do not make the global size: 2 x 4 (x) = 8, not 10\n"
            "hint: 10 does not divide into 4 tiles\n");
  EXPECT_EQ(cut(3),
            "error: tile and axes do not make the global size: 1 x 4 (x) = 4, not 3\n"
            "hint: 3 does not divide into 4 tiles\n");
  EXPECT_EQ(cut(0),
            "error: a size is below 1\n"
            "hint: sizes start at 1\n");
}

TEST(Cut, reports_parts_that_are_none) {
  const Mesh mesh = parse_mesh("x=4");
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{3}, largest}) {
    const auto cut = [&] { return DistributedType::cut(mesh, {8}, {{{0, 1, size}, {0, 1, size}}}); };
    EXPECT_EQ(test::diagnostic_of(cut),
              "error: x:(1)" + std::to_string(size) +
                  " is no part of axis x\n"
                  "hint: from major to minor its parts are x:(1)2, x:(2)2; neighbours may be joined\n");
  }
}

TEST(Cut, needs_a_list_of_axes_per_dimension) {
  EXPECT_THROW(DistributedType::cut(parse_mesh("x=4"), {8, 8}, {{}}), InternalError);
}

}  // namespace
}  // namespace retile
