#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "retile/interchange/notation.h"
#include "retile/interchange/readers.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/enumerate.h"
#include "tests/support/small_types.h"

namespace retile::interchange {
namespace {

using test::diagnostic_of;

Layout read_xla(const std::string& text, const Shape& shape, const std::optional<PlacedMesh>& mesh = {}) {
  const SourceText source{"sharding", text};
  return parse_xla({&source, 1}, shape, mesh).front();
}

// "[8{a}16, 16] on {a: 2}", and devices where they are listed.
std::string shown_xla(const std::string& text, const Shape& shape) {
  const Layout layout = read_xla(text, shape);
  return to_string(layout) + " on " + to_string(layout.cuts()->mesh);
}

std::string fault_of_xla(const std::string& text, const Shape& shape, const std::optional<PlacedMesh>& mesh = {}) {
  return diagnostic_of([&] { return read_xla(text, shape, mesh); });
}

// --- Worked out anew: 0, 1, 2, … in a shape, transposed, dealt to tiles row-major.

struct Assignment {
  Shape counts;
  Shape reshape;
  std::vector<std::size_t> transpose;
};

std::vector<Device> devices_in_order(const Assignment& assignment) {
  std::vector<std::int64_t> strides(assignment.reshape.size(), 1);
  for (std::size_t i = strides.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * assignment.reshape[i + 1];
  const std::int64_t count =
      std::accumulate(assignment.reshape.begin(), assignment.reshape.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<Device> devices;
  for (std::int64_t position = 0; position < count; ++position) {
    std::int64_t rest = position;
    Device device = 0;
    for (std::size_t i = assignment.transpose.size(); i-- > 0;) {
      const std::size_t dimension = assignment.transpose[i];
      device += rest % assignment.reshape[dimension] * strides[dimension];
      rest /= assignment.reshape[dimension];
    }
    devices.push_back(device);
  }
  return devices;
}

void expect_tiles(const Layout& layout, const Shape& shape, const Shape& counts, const std::vector<Device>& devices) {
  const Placement placement = layout.placement();
  ASSERT_EQ(placement.device_count(), static_cast<std::int64_t>(devices.size()));
  for (std::size_t position = 0; position < devices.size(); ++position) {
    auto rest = static_cast<std::int64_t>(position);
    Box box{shape, shape};
    for (std::size_t i = counts.size(); i-- > 0; rest /= counts[i]) {
      if (i >= shape.size()) continue;
      const std::int64_t tile = (shape[i] + counts[i] - 1) / counts[i];
      box.lo[i] = std::min(shape[i], rest % counts[i] * tile);
      box.hi[i] = std::min(shape[i], box.lo[i] + tile);
    }
    const std::vector<Part> parts = placement.parts(devices[position]);
    if (volume(box) == 0) {
      EXPECT_TRUE(parts.empty());
      continue;
    }
    ASSERT_EQ(parts.size(), 1U);
    EXPECT_EQ(parts[0].box, box) << "device " << devices[position];
  }
}

TEST(XlaSharding, tiles_lie_where_the_order_of_devices_puts_them) {
  const std::vector<Assignment> assignments{{{2, 1, 4}, {4, 2}, {1, 0}},       {{1, 8, 1}, {8}, {0}},
                                            {{2, 2, 2}, {2, 2, 2}, {1, 0, 2}}, {{4, 1, 2}, {2, 2, 2}, {2, 0, 1}},
                                            {{3, 2, 2}, {2, 3, 2}, {1, 2, 0}}, {{6, 2, 1}, {4, 3}, {1, 0}},
                                            {{4, 3, 1}, {4, 3}, {1, 0}},  // tiles that follow no digits
                                            {{2, 2, 1, 2}, {2, 4}, {1, 0}},    {{1, 3, 1, 4}, {3, 2, 2}, {2, 0, 1}}};
  for (const Assignment& assignment : assignments) {
    std::string text;
    const auto join = [](const auto& numbers) {
      std::string out;
      for (const auto number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
      return out;
    };
    const std::vector<Device> devices = devices_in_order(assignment);
    const std::string counts = "{devices=[" + join(assignment.counts) + "]";
    const std::string end = assignment.counts.size() == 4 ? " last_tile_dim_replicate}" : "}";
    for (const Shape& shape : {Shape{12, 24, 8}, Shape{7, 9, 5}}) {
      SCOPED_TRACE(counts + join(devices));
      const Layout layout =
          read_xla(counts + "<=[" + join(assignment.reshape) + "]T(" + join(assignment.transpose) + ")" + end, shape);
      expect_tiles(layout, shape, assignment.counts, devices);
      EXPECT_EQ(read_xla(counts + join(devices) + end, shape), layout) << "listed one by one";
      EXPECT_EQ(read_xla(to_xla(layout), shape), layout) << to_xla(layout);
    }
  }
}

TEST(XlaSharding, becomes_a_type_on_a_mesh_in_the_order_of_the_devices) {
  EXPECT_EQ(shown_xla("{devices=[2,1,4]<=[4,2]T(1,0)}", {16, 16, 16}), "[8{b}16, 16, 4{a}16] on {a: 4, b: 2}");
  EXPECT_EQ(shown_xla("{devices=[4,2]<=[2,2,2]}", {8, 8}), "[2{a}8, 4{b}8] on {a: 4, b: 2}");
  EXPECT_EQ(shown_xla("{devices=[2,4]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}", {8}), "[4{a}8] on {a: 2, b: 4}");
  EXPECT_EQ(shown_xla("{devices=[2,2]0,2,1,3}", {8, 8}), "[4{b}8, 4{a}8] on {a: 2, b: 2}");
  EXPECT_EQ(shown_xla("{devices=[2,2]<=[4]}", {7, 8}), "[4{a}7, 4{b}8] on {a: 2, b: 2}");
  EXPECT_EQ(shown_xla("{devices=[2,2]<=[4] last_tile_dims={unreduced}}", {8}), "[4{a}8] sum {b} on {a: 2, b: 2}");
  EXPECT_EQ(shown_xla("GSPMDSharding({devices=[2,2]<=[4]})", {8, 8}), "[4{a}8, 4{b}8] on {a: 2, b: 2}");
  EXPECT_EQ(shown_xla("{maximal device=0}", {8}), "[8] on {}");
  EXPECT_EQ(shown_xla("{maximal device=3}", {8}), "[8] on [3] on {}");
}

TEST(XlaSharding, keeps_devices_that_no_digits_number_as_a_list) {
  EXPECT_EQ(shown_xla("{devices=[4]0,3,1,2}", {8}), "[2{a}8] on [0, 3, 1, 2] on {a: 4}");
  EXPECT_EQ(shown_xla("{devices=[4,3]<=[4,3]T(1,0)}", {8, 6}),
            "[2{a}8, 2{b}6] on [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11] on {a: 4, b: 3}");
  EXPECT_EQ(to_xla(read_xla("{devices=[2,2]4,5,6,7}", {8, 8})), "{devices=[2,2]4,5,6,7}");
}

TEST(XlaSharding, two_of_one_array_share_a_mesh) {
  const std::vector<SourceText> texts{{"from", "{devices=[1,8]<=[8]}"},
                                      {"to", "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}};
  const std::vector<Layout> layouts = parse_xla(texts, {8, 8}, {});
  EXPECT_EQ(to_string(layouts[0]), "[8, 1{b,a}8]");
  EXPECT_EQ(to_string(layouts[1]), "[2{b}8, 8]");
  EXPECT_EQ(layouts[0].cuts()->mesh, layouts[1].cuts()->mesh);
}

TEST(XlaSharding, replicated_takes_the_devices_of_the_other_end) {
  const std::vector<SourceText> texts{{"from", "{devices=[2]<=[2]}"}, {"to", "{replicated}"}};
  EXPECT_EQ(to_string(parse_xla(texts, {8}, {})[1]), "[8]");
  EXPECT_EQ(fault_of_xla("{replicated}", {8}), R"(sharding:1:1: error: nothing says how many devices there are
    1 | {replicated}
      | ^~~~~~~~~~~~
hint: give a mesh, as in --mesh a=8
)");
}

TEST(XlaSharding, every_small_type_is_printed_and_read_again) {
  int count = 0;
  test::for_each_small_type(8, [&](const DistributedType& type) {
    const std::string text = to_xla(type);
    const Layout again = read_xla(text, type.global_shape(), PlacedMesh{type.mesh(), {}});
    EXPECT_EQ(again.placement(type.mesh().device_count()), Placement(type)) << text;
    EXPECT_EQ(to_xla(again), text);
    ++count;
  });
  EXPECT_GT(count, 1000);
}

TEST(XlaSharding, other_fields_are_read_over) {
  EXPECT_EQ(shown_xla("{devices=[2]<=[2] metadata={op_name=\"a}b\"} shard_as 4}", {8}), "[4{a}8] on {a: 2}");
}

// --- Faults.

TEST(XlaFault, unknown_field) {
  EXPECT_EQ(fault_of_xla("{devices=[2,2]<=[4] last_tile_dim_replicates}", {8}),
            R"(sharding:1:21: error: unknown field 'last_tile_dim_replicates' of a sharding
    1 | {devices=[2,2]<=[4] last_tile_dim_replicates}
      |                     ^~~~~~~~~~~~~~~~~~~~~~~~
hint: did you mean last_tile_dim_replicate? known are last_tile_dim_replicate, last_tile_dims, metadata, shard_as, shard_like
)");
}

TEST(XlaFault, tile_count_that_is_not_the_device_count) {
  EXPECT_EQ(fault_of_xla("{devices=[2,2]<=[8]}", {8, 8}), R"(sharding:1:10: error: [2,2] are 4 tiles, for 8 devices
    1 | {devices=[2,2]<=[8]}
      |          ^~~~~
hint: where 2 devices hold each tile: [2,2,2], and last_tile_dim_replicate
)");
  EXPECT_EQ(fault_of_xla("{devices=[2,2]0,1,2}", {8, 8}), R"(sharding:1:10: error: [2,2] are 4 tiles, for 3 devices
    1 | {devices=[2,2]0,1,2}
      |          ^~~~~
hint: every tile has one device
)");
}

TEST(XlaFault, permutation_that_is_none) {
  EXPECT_EQ(fault_of_xla("{devices=[2,4]<=[4,2]T(1,1)}", {8, 8}),
            R"(sharding:1:23: error: (1,1) is no permutation of 2 dimensions
    1 | {devices=[2,4]<=[4,2]T(1,1)}
      |                       ^~~~~
hint: it names each of 0 to 1 once
)");
}

TEST(XlaFault, more_tile_counts_than_dimensions) {
  EXPECT_EQ(fault_of_xla("{devices=[2,2,2]<=[8]}", {8, 8}),
            R"(sharding:1:10: error: 3 tile counts for an array of rank 2
    1 | {devices=[2,2,2]<=[8]}
      |          ^~~~~~~
hint: its shape is [8, 8]
)");
}

TEST(XlaFault, axes_that_the_mesh_lacks) {
  EXPECT_EQ(fault_of_xla("{devices=[4,2]<=[2,4]T(1,0)}", {8, 8}, PlacedMesh{Mesh({{"x", 4}, {"y", 2}}), {}}),
            "no error");
  EXPECT_EQ(fault_of_xla("{devices=[3,2]<=[3,2]}", {6, 6}, PlacedMesh{Mesh({{"x", 2}, {"y", 3}}), {}}),
            R"(sharding:1:1: error: these tiles do not lie along the axes of the mesh {x: 2, y: 3}
    1 | {devices=[3,2]<=[3,2]}
      | ^~~~~~~~~~~~~~~~~~~~~~
hint: without --mesh, the mesh is the one that follows from the shardings
)");
}

TEST(XlaFault, kinds_that_say_nothing_of_tiles) {
  EXPECT_EQ(fault_of_xla("{devices=[2,2]<=[4] last_tile_dims={manual}}", {8}),
            R"(sharding:1:37: error: devices of a manual tile dimension hold arrays of their own
    1 | {devices=[2,2]<=[4] last_tile_dims={manual}}
      |                                     ^~~~~~
hint: redistribute the array of one of them: leave the dimension out, and its devices
)");
  EXPECT_EQ(fault_of_xla("{manual}", {8}), R"(sharding:1:2: error: a sharding that is manual does not say who holds what
    1 | {manual}
      |  ^~~~~~
hint: give one with devices=[...]
)");
  EXPECT_EQ(fault_of_xla("{{replicated}, {replicated}}", {8}), R"(sharding:1:2: error: this is a tuple of shardings
    1 | {{replicated}, {replicated}}
      |  ^
hint: give the one of the array
)");
}

TEST(XlaFault, what_it_cannot_say_is_refused_with_the_reason) {
  const Mesh mesh({{"x", 2}, {"y", 2}});
  const auto refused = [&](const char* text) {
    return diagnostic_of([&] { return to_xla(parse_layout(text, mesh)); });
  };
  EXPECT_EQ(
      refused("[4] boxes {[0:1]; [1:4]}"),
      "error: XLA cannot say boxes that are listed device by device\nhint: it cuts arrays along axes of devices\n");
  EXPECT_EQ(refused("[3*2{x}4, 8]"),
            "error: XLA cannot say a dimension in factors\nhint: it cuts dimensions as a whole\n");
  EXPECT_EQ(refused("[2{y,x}5] nested"),
            "error: XLA cannot say the nested rule for sizes that do not divide\nhint: its tiles of 5 would be those "
            "of ceilings\n");
  EXPECT_EQ(refused("[8] max {x}"),
            "error: XLA cannot say a max over axes\nhint: what it leaves to be reduced is a sum\n");
}

// --- Shardings that name axes of a mesh.

std::string named(const std::string& text, const Shape& shape) {
  const Layout layout = parse_named_xla({"sharding", text}, shape, {});
  return to_string(layout) + " on " + to_string(layout.cuts()->mesh);
}

std::string named_fault(const std::string& text, const Shape& shape) {
  return diagnostic_of([&] { return parse_named_xla({"sharding", text}, shape, {}); });
}

TEST(NamedXla, says_axes_or_parts_of_them) {
  EXPECT_EQ(named("{mesh['a'=2,'b'=4,'c'=3], [{'c'}, {'a', 'b':(2)2, ?}]}", {12, 16}),
            "[4{c}12, 4{b:(2)2,a}16] on {a: 2, b: 4, c: 3}");
  EXPECT_EQ(named("{mesh[a=2,b=8], [{b:(4)2}, {}], replicated={a}}", {12, 16}), "[6{b:(4)2}12, 16] on {a: 2, b: 8}");
  EXPECT_EQ(named("{mesh['a'=2,'b'=8], replicated}", {12}), "[12] on {a: 2, b: 8}");
  EXPECT_EQ(named("{mesh['a'=2,'b'=8], unreduced}", {12}), "[12] sum {a,b} on {a: 2, b: 8}");
  EXPECT_EQ(named("{mesh['a'=2,'b'=8], [{}], unreduced=max{'b'}, metadata={{op_name=\"f\"}}}", {12}),
            "[12] max {b} on {a: 2, b: 8}");
  EXPECT_EQ(named("{mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)), [{'a'}]}", {4}),
            "[2{a}4] on [0, 2, 1, 3] on {a: 2, b: 2}");
  EXPECT_EQ(named("{mesh['a'=4], device_ids=(0,1,3,2), [{'a'}]}", {4}), "[1{a}4] on [0, 1, 3, 2] on {a: 4}");
  EXPECT_EQ(named("{single_device[device_id=5]}", {4}), "[4] on [5] on {}");
  EXPECT_EQ(named(" { maximal_mesh[device_id=0]}", {4}), "[4] on {}");
}

TEST(NamedXla, goes_with_tiles_and_with_any_other_notation) {
  const Ends ends =
      parse_ends({"from", "{mesh['x'=2,'y'=4], [{'x'}, {'y'}]}"}, {"to", "{devices=[8,1]<=[8]}"}, {16, 16}, {});
  EXPECT_EQ(to_string(ends.source), "[8{x}16, 4{y}16]");
  EXPECT_EQ(to_string(ends.target), "[2{a}16, 16]");
}

TEST(NamedXlaFault, has_a_place_and_a_hint) {
  EXPECT_EQ(named_fault("{mesh['x'=2], [{'z'}]}", {4}),
            "sharding:1:17: error: unknown axis z\n    1 | {mesh['x'=2], [{'z'}]}\n      |                 ^~~\n"
            "hint: the mesh has x\n");
  EXPECT_EQ(named_fault("{mesh['x'=2], [{}], manual={'x'}}", {4}),
            "sharding:1:21: error: devices along manual axes hold arrays of their own\n"
            "    1 | {mesh['x'=2], [{}], manual={'x'}}\n      |                     ^~~~~~\n"
            "hint: redistribute the array of one of them: leave the axes out of the mesh\n");
  EXPECT_EQ(named_fault("{mesh['x'=2], [{}, {}]}", {4}),
            "sharding:1:20: error: there is no dimension 1: the array has rank 1\n"
            "    1 | {mesh['x'=2], [{}, {}]}\n      |                    ^~\nhint: its shape is [4]\n");
  EXPECT_EQ(named_fault("{mesh['x'=4], device_ids=([4]T(1)), [{}]}", {4}),
            "sharding:1:31: error: (1) is no permutation of 1 dimensions\n"
            "    1 | {mesh['x'=4], device_ids=([4]T(1)), [{}]}\n      |                               ^~~\nhint: it is "
            "(0)\n");
  EXPECT_EQ(
      named_fault("{mesh['x'=2], replicate}", {4}),
      "sharding:1:15: error: unknown field 'replicate' of a sharding\n    1 | {mesh['x'=2], replicate}\n"
      "      |               ^~~~~~~~~\nhint: did you mean replicated? known are replicated, unreduced, manual\n");
}

}  // namespace
}  // namespace retile::interchange
