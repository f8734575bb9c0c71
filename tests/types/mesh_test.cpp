#include "retile/types/mesh.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"

namespace retile {
namespace {

using Parts = std::vector<AxisPart>;

std::string fault_of(const std::vector<Axis>& axes) {
  return test::diagnostic_of([&] { return Mesh(axes); });
}

// Runs of the axis's prime parts, and the axis itself.
Parts all_parts(const Mesh& mesh, int axis) {
  Parts primes;
  for (const AxisPart& prime : mesh.prime_parts()) {
    if (prime.axis == axis) primes.push_back(prime);
  }
  Parts parts;
  for (std::size_t first = 0; first < primes.size(); ++first) {
    std::int64_t size = 1;
    for (std::size_t last = first; last < primes.size(); ++last) {
      size *= primes[last].size;
      parts.push_back({axis, primes[first].major, size});
    }
  }
  if (parts.empty()) parts.push_back(mesh.whole(axis));
  return parts;
}

bool is_among(const Parts& parts, const AxisPart& part) {
  return std::find(parts.begin(), parts.end(), part) != parts.end();
}

TEST(Mesh, knows_its_axes) {
  const Mesh mesh({{"a", 2}, {"b", 3}, {"one", 1}});
  EXPECT_EQ(mesh.axis_count(), 3);
  EXPECT_EQ(mesh.axis(1), (Axis{"b", 3}));
  EXPECT_EQ(mesh.axes().size(), 3U);
  EXPECT_EQ(mesh.device_count(), 6);
  EXPECT_EQ(mesh.find_axis("one"), 2);
  EXPECT_EQ(mesh.find_axis("A"), std::nullopt);
  EXPECT_EQ(mesh.whole(1), (AxisPart{1, 1, 3}));
}

TEST(Mesh, is_equal_by_names_sizes_and_order) {
  const Mesh mesh({{"a", 2}, {"b", 3}});
  EXPECT_EQ(mesh, Mesh({{"a", 2}, {"b", 3}}));
  EXPECT_EQ(mesh, Mesh(mesh));
  EXPECT_NE(mesh, Mesh({{"b", 3}, {"a", 2}}));
  EXPECT_NE(mesh, Mesh({{"a", 2}, {"c", 3}}));
  EXPECT_NE(mesh, Mesh({{"a", 2}, {"b", 3}, {"c", 1}}));
}

TEST(Mesh, without_axes_is_one_device) {
  const Mesh mesh{std::vector<Axis>{}};
  EXPECT_EQ(mesh.device_count(), 1);
  EXPECT_EQ(mesh.axis_count(), 0);
  EXPECT_TRUE(mesh.prime_parts().empty());
  EXPECT_EQ(to_string(mesh), "{}");
  for (const std::string_view text : {"", "{}", " { }", " // nothing"}) EXPECT_EQ(parse_mesh(text), mesh) << text;
  const DistributedType type = parse_type("[8, 4]", mesh);
  EXPECT_EQ(type.local_size(), 32);
  EXPECT_EQ(test::diagnostic_of([&] { return parse_type("[4{x}8]", mesh); }),
            "type:1:4: error: unknown axis x\n"
            "    1 | [4{x}8]\n"
            "      |    ^\n"
            "hint: the mesh has no axes\n");
}

TEST(Mesh, needs_names) {
  EXPECT_EQ(fault_of({{"", 2}}), "error: an axis has an empty name\n");
  for (const char* name : {"a\nb", "\x01", "\x7F", "a\xFF", "\xE2\x82", "a\u202E", "\u200B", "\u0085", "\uFEFFx"}) {
    EXPECT_EQ(fault_of({{name, 2}}), "error: an axis's name must be printable UTF-8\n");
  }
  EXPECT_EQ(fault_of({{"größe, in 😀\"\\", 2}}), "no error");
}

TEST(Mesh, needs_distinct_names) {
  EXPECT_EQ(fault_of({{"a b", 2}, {"c", 2}, {"a b", 4}}), "error: the mesh has two axes named \"a b\"\n");
  EXPECT_EQ(Mesh::find_fault(std::vector<Axis>{{"a", 2}, {"c", 2}, {"a", 4}})->axis, 2);
  EXPECT_EQ(fault_of({{"a", 2}, {"A", 2}}), "no error");
}

TEST(Mesh, needs_positive_sizes) {
  EXPECT_EQ(fault_of({{"a", 2}, {"b", 0}}),
            "error: the size of axis b is 0\n"
            "hint: sizes start at 1\n");
  EXPECT_EQ(fault_of({{"a", -2}}),
            "error: the size of axis a is -2\n"
            "hint: sizes start at 1\n");
}

TEST(Mesh, has_at_most_2147483647_devices) {
  const std::string too_many =
      "error: the mesh has too many devices\n"
      "hint: at most 2147483647 fit\n";
  EXPECT_EQ(Mesh({{"a", 2147483647}}).device_count(), 2147483647);
  EXPECT_EQ(Mesh({{"a", 1}, {"b", 1073741823}, {"c", 2}}).device_count(), 2147483646);
  EXPECT_EQ(fault_of({{"a", 2147483648}}), too_many);
  EXPECT_EQ(fault_of({{"a", 46341}, {"b", 46341}}), too_many);
  EXPECT_EQ(fault_of({{"a", 2}, {"b", std::numeric_limits<std::int64_t>::max()}}), too_many);
  EXPECT_EQ(Mesh::find_fault(std::vector<Axis>{{"a", 65536}, {"b", 65536}, {"c", 2}})->axis, 1);
}

TEST(Mesh, numbers_devices_with_the_first_axis_slowest) {
  const Mesh mesh({{"a", 2}, {"b", 3}, {"c", 4}});
  EXPECT_EQ(mesh.stride(mesh.whole(0)), 12);
  EXPECT_EQ(mesh.stride(mesh.whole(1)), 4);
  EXPECT_EQ(mesh.stride(mesh.whole(2)), 1);
  const Device device = 1 * 12 + 2 * 4 + 3;
  EXPECT_EQ(mesh.coordinate(device, mesh.whole(0)), 1);
  EXPECT_EQ(mesh.coordinate(device, mesh.whole(1)), 2);
  EXPECT_EQ(mesh.coordinate(device, mesh.whole(2)), 3);
}

// Counting through the coordinates like an odometer meets the devices in order.
TEST(Mesh, numbers_the_devices_of_every_small_mesh_row_major) {
  for (const Mesh& mesh : test::all_meshes(24)) {
    std::vector<std::int64_t> odometer(mesh.axes().size(), 0);
    for (Device device = 0; device < mesh.device_count(); ++device) {
      for (int axis = 0; axis < mesh.axis_count(); ++axis) {
        ASSERT_EQ(mesh.coordinate(device, mesh.whole(axis)), odometer[static_cast<std::size_t>(axis)])
            << to_string(mesh);
      }
      for (std::size_t axis = odometer.size(); axis-- > 0;) {
        if (++odometer[axis] < mesh.axes()[axis].size) break;
        odometer[axis] = 0;
      }
    }
  }
}

TEST(Mesh, splits_axes_into_primes_that_ascend_from_major_to_minor) {
  const Mesh mesh({{"a", 12}, {"one", 1}, {"b", 6}});
  EXPECT_EQ(mesh.prime_parts(), (Parts{{0, 1, 2}, {0, 2, 2}, {0, 4, 3}, {2, 1, 2}, {2, 2, 3}}));
  EXPECT_TRUE(Mesh({{"one", 1}}).prime_parts().empty());
}

TEST(Mesh, gives_parts_their_strides_and_coordinates) {
  const Mesh mesh({{"a", 12}, {"b", 5}});
  EXPECT_EQ(mesh.stride({0, 1, 2}), 30);
  EXPECT_EQ(mesh.stride({0, 2, 2}), 15);
  EXPECT_EQ(mesh.stride({0, 4, 3}), 5);
  EXPECT_EQ(mesh.stride({0, 2, 6}), 5);
  const Device device = 11 * 5 + 4;  // 11 is 1, 1, 2 in the digits 2, 2, 3
  EXPECT_EQ(mesh.coordinate(device, {0, 1, 2}), 1);
  EXPECT_EQ(mesh.coordinate(device, {0, 2, 2}), 1);
  EXPECT_EQ(mesh.coordinate(device, {0, 4, 3}), 2);
  EXPECT_EQ(mesh.coordinate(device, {0, 1, 4}), 3);
  EXPECT_EQ(mesh.coordinate(device, {0, 2, 6}), 5);
}

TEST(Mesh, devices_are_the_sum_of_their_coordinates_along_prime_parts) {
  for (const Mesh& mesh : test::all_meshes(36)) {
    for (Device device = 0; device < mesh.device_count(); ++device) {
      Device sum = 0;
      for (const AxisPart& prime : mesh.prime_parts()) sum += mesh.coordinate(device, prime) * mesh.stride(prime);
      ASSERT_EQ(sum, device) << to_string(mesh);
    }
  }
}

TEST(Mesh, the_coordinate_along_a_part_is_made_of_those_along_its_primes) {
  const Mesh mesh({{"a", 3}, {"b", 60}, {"c", 2}});
  for (const AxisPart& part : all_parts(mesh, 1)) {
    for (Device device = 0; device < mesh.device_count(); ++device) {
      std::int64_t coordinate = 0;
      std::int64_t weight = 1;
      for (const AxisPart& prime : split_into_primes(mesh, Parts{part})) {
        coordinate += mesh.coordinate(device, prime) * weight;
        weight *= prime.size;
      }
      ASSERT_EQ(mesh.coordinate(device, part), coordinate) << to_string(mesh, part);
    }
  }
}

TEST(Mesh, the_largest_has_coordinates_too) {
  const Mesh mesh({{"a", 2}, {"b", 1073741823}});
  const Device last = mesh.device_count() - 1;
  EXPECT_EQ(mesh.coordinate(last, mesh.whole(0)), 1);
  EXPECT_EQ(mesh.coordinate(last, mesh.whole(1)), 1073741822);
  EXPECT_EQ(mesh.prime_parts().size(), 8U);  // 2, and 3 · 3 · 7 · 11 · 31 · 151 · 331
}

TEST(IsPartOfAxis, holds_for_runs_of_prime_parts_alone) {
  for (std::int64_t size = 1; size <= 60; ++size) {
    const Mesh mesh({{"other", 2}, {"a", size}});
    const Parts parts = all_parts(mesh, 1);
    for (std::int64_t major = -1; major <= size + 1; ++major) {
      for (std::int64_t count = -1; count <= size + 1; ++count) {
        const AxisPart part{1, major, count};
        ASSERT_EQ(is_part_of_axis(mesh, part), is_among(parts, part)) << size << ": " << to_string(mesh, part);
      }
    }
  }
}

TEST(IsPartOfAxis, holds_for_6_as_2_above_3_but_not_3_above_2) {
  const Mesh mesh({{"x", 6}});
  EXPECT_TRUE(is_part_of_axis(mesh, {0, 1, 2}));
  EXPECT_TRUE(is_part_of_axis(mesh, {0, 2, 3}));
  EXPECT_TRUE(is_part_of_axis(mesh, {0, 1, 6}));
  EXPECT_FALSE(is_part_of_axis(mesh, {0, 1, 3}));
  EXPECT_FALSE(is_part_of_axis(mesh, {0, 3, 2}));
  EXPECT_FALSE(is_part_of_axis(mesh, {0, 1, 1}));
}

TEST(IsPartOfAxis, needs_an_axis_of_the_mesh) {
  const Mesh mesh({{"x", 6}});
  EXPECT_FALSE(is_part_of_axis(mesh, {-1, 1, 6}));
  EXPECT_FALSE(is_part_of_axis(mesh, {1, 1, 6}));
}

TEST(IsPartOfAxis, does_not_overflow) {
  const Mesh mesh({{"x", 6}});
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t major : {smallest, std::int64_t{2}, largest / 2 + 1, largest}) {
    for (const std::int64_t size : {smallest, std::int64_t{4}, largest / 2 + 1, largest}) {
      EXPECT_FALSE(is_part_of_axis(mesh, {0, major, size}));
    }
  }
}

TEST(Overlap, is_a_shared_digit) {
  for (const std::int64_t size : {1, 2, 8, 12, 30, 36}) {
    const Mesh mesh({{"a", size}, {"b", size}});
    for (const AxisPart& a : all_parts(mesh, 0)) {
      const Parts digits = split_into_primes(mesh, Parts{a});
      for (const AxisPart& b : all_parts(mesh, 0)) {
        const Parts others = split_into_primes(mesh, Parts{b});
        const bool shared =
            std::any_of(digits.begin(), digits.end(), [&](const AxisPart& digit) { return is_among(others, digit); });
        ASSERT_EQ(overlap(a, b), shared) << to_string(mesh, a) << " and " << to_string(mesh, b);
      }
      for (const AxisPart& b : all_parts(mesh, 1)) ASSERT_FALSE(overlap(a, b));
    }
  }
}

TEST(SplitIntoPrimes, keeps_places_and_lists_minor_to_major) {
  const Mesh mesh({{"x", 6}, {"y", 4}, {"one", 1}});
  EXPECT_EQ(split_into_primes(mesh, Parts{{1, 1, 4}, {2, 1, 1}, {0, 1, 6}}),
            (Parts{{1, 2, 2}, {1, 1, 2}, {2, 1, 1}, {0, 2, 3}, {0, 1, 2}}));
  EXPECT_EQ(split_into_primes(mesh, Parts{{0, 2, 3}}), (Parts{{0, 2, 3}}));
  EXPECT_TRUE(split_into_primes(mesh, Parts{}).empty());
}

TEST(MergeNeighbours, joins_a_minor_part_with_the_next_major_one) {
  EXPECT_EQ(merge_neighbours(Parts{{0, 2, 3}, {0, 1, 2}}), (Parts{{0, 1, 6}}));
  EXPECT_EQ(merge_neighbours(Parts{{0, 4, 3}, {0, 2, 2}, {0, 1, 2}}), (Parts{{0, 1, 12}}));
  EXPECT_EQ(merge_neighbours(Parts{{0, 4, 3}, {0, 1, 4}}), (Parts{{0, 1, 12}}));
}

TEST(MergeNeighbours, leaves_what_is_apart) {
  const std::vector<Parts> apart{{{0, 1, 2}, {0, 2, 3}},              // in the wrong order
                                 {{0, 4, 3}, {0, 1, 2}},              // a digit between them
                                 {{0, 2, 3}, {1, 1, 2}, {0, 1, 2}},   // another axis between them
                                 {{0, 2, 3}, {1, 1, 2}},              // of two axes
                                 {{0, 1, 1}, {1, 1, 1}, {2, 1, 4}}};  // axes of size 1
  for (const Parts& parts : apart) EXPECT_EQ(merge_neighbours(parts), parts);
}

TEST(MergeNeighbours, undoes_split_into_primes_for_every_part) {
  for (std::int64_t size = 1; size <= 96; ++size) {
    const Mesh mesh({{"a", size}});
    for (const AxisPart& part : all_parts(mesh, 0)) {
      ASSERT_EQ(merge_neighbours(split_into_primes(mesh, Parts{part})), Parts{part}) << to_string(mesh, part);
    }
  }
}

RC_GTEST_PROP(MergeNeighbours, and_split_into_primes_undo_each_other, ()) {
  const Mesh mesh = *test::arbitrary_mesh();
  const Shape global = test::divisible_shape(mesh, 1);
  const Parts primes = (*test::arbitrary_type(mesh, global)).dimension(0).axes;
  const Parts merged = merge_neighbours(primes);
  RC_ASSERT(split_into_primes(mesh, merged) == primes);
  RC_ASSERT(merge_neighbours(merged) == merged);
}

TEST(UnknownAxis, suggests_the_nearest_name) {
  const Mesh mesh({{"rows", 2}, {"columns", 2}, {"my axis", 2}, {"x", 2}});
  const std::string known = "the mesh has rows, columns, \"my axis\", x";
  EXPECT_EQ(unknown_axis(mesh, "row").message, "unknown axis row");
  EXPECT_EQ(unknown_axis(mesh, "row").hint, "did you mean rows? " + known);
  EXPECT_EQ(unknown_axis(mesh, "colums").hint, "did you mean columns? " + known);
  EXPECT_EQ(unknown_axis(mesh, "my_axis").hint, "did you mean \"my axis\"? " + known);
}

TEST(UnknownAxis, suggests_the_name_in_another_case) {
  const Mesh mesh({{"a", 2}, {"X", 2}});
  EXPECT_EQ(unknown_axis(mesh, "x").hint, "did you mean X? the mesh has a, X");
  EXPECT_EQ(unknown_axis(mesh, "A").hint, "did you mean a? the mesh has a, X");
}

TEST(UnknownAxis, suggests_nothing_where_nothing_is_near) {
  const Mesh mesh({{"a", 2}, {"bc", 2}});
  EXPECT_EQ(unknown_axis(mesh, "x").hint, "the mesh has a, bc");
  EXPECT_EQ(unknown_axis(mesh, "xy").hint, "the mesh has a, bc");
  EXPECT_EQ(unknown_axis(mesh, "").hint, "the mesh has a, bc");
  EXPECT_EQ(unknown_axis(mesh, "").message, "unknown axis \"\"");
}

TEST(UnknownAxis, does_not_compare_very_long_names) {
  const Mesh mesh({{"a", 2}, {std::string(300, 'b'), 2}});
  EXPECT_EQ(unknown_axis(mesh, std::string(200, 'x')).hint, "the mesh has a, " + std::string(300, 'b'));
}

}  // namespace
}  // namespace retile
