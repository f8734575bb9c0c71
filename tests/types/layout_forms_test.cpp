// Layouts that programs with MPI have: blocks dealt out in turn, listed tiles, ghost zones, orders in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "retile/base/arithmetic.h"
#include "retile/types/layout.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/layouts.h"

namespace retile {
namespace {

using test::RandomProblems;
using ::testing::ElementsAre;

const Mesh& mesh() {
  static const Mesh mesh({{"p", 3}, {"q", 2}});
  return mesh;
}

Layout layout_of(const char* text) { return parse_layout(text, mesh()); }

// What is printed of the layout, or what the user reads.
std::string read(const std::string& text) {
  std::string printed;
  const std::string fault = test::diagnostic_of([&] {
    printed = to_string(parse_layout(SourceText{"layout", text}, mesh()));
  });
  return fault == "no error" ? printed : fault;
}

// The elements of an array of one dimension that a device holds, in the order of its memory; -1 where there is none.
std::vector<std::int64_t> elements_of(const Placement& placement, Device device) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(placement.size(device)), -1);
  for (const Part& part : placement.parts(device)) {
    for (std::int64_t i = part.box.lo[0]; i < part.box.hi[0]; ++i) {
      elements[static_cast<std::size_t>(part.offset + (i - part.box.lo[0]) * part.strides[0])] = i;
    }
  }
  return elements;
}

std::vector<std::int64_t> elements_of(const Layout& layout, Device device) {
  return elements_of(layout.placement(), device);
}

TEST(LayoutForms, print_back) {
  for (const char* text : {
           "[10 cyclic 2{p}]",
           "[10 cyclic 2{p} from 1, 7 cyclic 3{q}]",
           "[(5,3,2){p}10, 4]",
           "[4{p}10] last",
           "[4{p}10 halo 1]",
           "[4{p}10 halo (1,2) wrap, 6 halo 2]",
           "[8, 3{q}6] order [1, 0]",
           "[(5,3,2){p}10 halo 1, 4] order [1, 0] balanced on [5, 4, 3, 2, 1, 0]",
           "[8 halo 1, 4] order [1, 0] boxes {[0:4, 0:4]; [4:8, 0:4]}",
       }) {
    EXPECT_EQ(read(text), text);
    EXPECT_FALSE(parse_layout(text, mesh()).is_plain() && std::string(text) != "[4{p}10] last");
  }
}

TEST(LayoutForms, say_what_goes_without_saying_in_fewer_words) {
  EXPECT_EQ(read("[12 cyclic 2{p}]"), "[2*1{p}3*2]");
  EXPECT_EQ(read("[6 cyclic 2{p}]"), "[2{p}6]");
  EXPECT_EQ(read("[6 cyclic 1{p}]"), "[2*1{p}3]");
  EXPECT_EQ(read("[0 cyclic 4{p}]"), "[0{p}0]");
  EXPECT_EQ(read("[10 cyclic 4{}]"), "[10]");
  EXPECT_EQ(read("[(4,4,2){p}10]"), "[4{p}10]");
  EXPECT_EQ(read("[(3,3,4){p}10] last"), "[4{p}10] last");
  EXPECT_EQ(read("[4{p}10 halo 0 wrap]"), "[4{p}10]");
  EXPECT_EQ(read("[4{p}10, 3] order [0, 1]"), "[4{p}10, 3]");
}

TEST(LayoutForms, have_what_follows_a_type_in_any_order) {
  const char* printed = "[4{p}10, 3] order [1, 0] balanced on [5, 4, 3, 2, 1, 0]";
  EXPECT_EQ(read("[4{p}10, 3] balanced order [1, 0] on [5, 4, 3, 2, 1, 0]"), printed);
  EXPECT_EQ(read("[4{p}10, 3] on [5, 4, 3, 2, 1, 0] balanced order [1, 0]"), printed);
  EXPECT_EQ(read("[10, 3] sum{p} nested"), read("[10, 3] nested sum{p}"));
}

// Block k = g / b is on process (k + first) mod p, at local k / p * b + g mod b.
TEST(Cyclic, deals_blocks_out_in_turn) {
  for (std::int64_t size = 0; size < 30; ++size) {
    for (std::int64_t block = 1; block < 8; ++block) {
      for (std::int64_t first = 0; first < 3; ++first) {
        const Factor factor{size, {mesh().whole(0)}, block, first, {}};
        MeshLayout cuts{mesh(), {{factor}}, UnevenRule::ceiling, {}, Reduction::sum, {}};
        const Layout layout(cuts);
        std::vector<std::vector<std::int64_t>> expected(3);
        for (std::int64_t g = 0; g < size; ++g) {
          std::vector<std::int64_t>& held = expected[static_cast<std::size_t>((g / block + first) % 3)];
          EXPECT_EQ(static_cast<std::int64_t>(held.size()), g / block / 3 * block + g % block);
          held.push_back(g);
        }
        std::int64_t most = 0;
        for (std::int64_t process = 0; process < 3; ++process) {
          EXPECT_EQ(elements_of(layout, 2 * process), expected[static_cast<std::size_t>(process)]) << to_string(layout);
          EXPECT_EQ(held_size(factor, UnevenRule::ceiling, process),
                    static_cast<std::int64_t>(expected[static_cast<std::size_t>(process)].size()));
          most = std::max(most, held_size(factor, UnevenRule::ceiling, process));
        }
        EXPECT_EQ(layout.local_size(), most);
        EXPECT_EQ(most_held(factor, UnevenRule::ceiling), most);
      }
    }
  }
}

TEST(Cyclic, has_blocks_longer_than_the_dimension) {
  EXPECT_EQ(read("[5 cyclic 9223372036854775807{p} from 2]"), "[5 cyclic 9223372036854775807{p} from 2]");
  EXPECT_THAT(elements_of(layout_of("[5 cyclic 9223372036854775807{p} from 2]"), 4), ElementsAre(0, 1, 2, 3, 4));
}

TEST(ListedTiles, are_as_long_as_they_say) {
  const Layout layout = layout_of("[(5,3,2){p}10]");
  EXPECT_THAT(elements_of(layout, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(elements_of(layout, 3), ElementsAre(5, 6, 7));
  EXPECT_THAT(elements_of(layout, 4), ElementsAre(8, 9));
  EXPECT_EQ(layout.local_size(), 5);
}

TEST(LastRule, makes_the_last_tiles_longer) {
  const Layout layout = layout_of("[4{p}11] last");
  EXPECT_EQ(layout.placement().size(0), 3);
  EXPECT_EQ(layout.placement().size(2), 4);
  EXPECT_EQ(layout.placement().size(4), 4);
  EXPECT_THAT(elements_of(layout, 2), ElementsAre(3, 4, 5, 6));
}

TEST(Halo, ends_where_the_array_does) {
  const Layout layout = layout_of("[4{p}10 halo (1,2)]");
  EXPECT_THAT(elements_of(layout, 0), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(elements_of(layout, 2), ElementsAre(3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(elements_of(layout, 4), ElementsAre(7, 8, 9));
  EXPECT_EQ(layout.local_size(), 7);
  EXPECT_TRUE(layout.placement().has_single_boxes());
}

TEST(Halo, wraps_round) {
  const Layout layout = layout_of("[4{p}10 halo (1,2) wrap]");
  EXPECT_THAT(elements_of(layout, 0), ElementsAre(9, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(elements_of(layout, 2), ElementsAre(3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(elements_of(layout, 4), ElementsAre(7, 8, 9, 0, 1));
  EXPECT_EQ(layout.local_size(), 7);
}

TEST(Halo, of_a_dimension_that_is_not_cut_has_elements_twice) {
  EXPECT_THAT(elements_of(layout_of("[3 halo (1,2) wrap]"), 5), ElementsAre(2, 0, 1, 2, 0, 1));
}

TEST(Halo, of_a_source_has_memory_and_no_elements) {
  const Placement ends = layout_of("[4{p}10 halo (1,2)]").inside(6);
  EXPECT_THAT(elements_of(ends, 0), ElementsAre(0, 1, 2, 3, -1, -1));
  EXPECT_THAT(elements_of(ends, 2), ElementsAre(-1, 4, 5, 6, 7, -1, -1));
  EXPECT_THAT(elements_of(ends, 4), ElementsAre(-1, 8, 9));
  EXPECT_EQ(ends.local_size(), 7);
  EXPECT_FALSE(ends.has_single_boxes());
  const Placement wraps = layout_of("[4{p}10 halo (1,2) wrap]").inside(6);
  EXPECT_THAT(elements_of(wraps, 0), ElementsAre(-1, 0, 1, 2, 3, -1, -1));
  EXPECT_THAT(elements_of(wraps, 4), ElementsAre(-1, 8, 9, -1, -1));
  EXPECT_THAT(elements_of(layout_of("[3 halo (1,2) wrap]").inside(6), 5), ElementsAre(-1, 0, 1, 2, -1, -1));
  const Placement empty = layout_of("[2{p}4 halo 1]").inside(6);
  EXPECT_EQ(empty.size(4), 0);
  const Placement listed = layout_of("[10 halo 1 wrap] boxes {[0:3]; ; [3:10]}").inside(3);
  EXPECT_THAT(elements_of(listed, 0), ElementsAre(-1, 0, 1, 2, -1));
  EXPECT_EQ(listed.size(1), 0);
}

// What follows a tile may be all of its halo: then it begins where a tile without one does.
TEST(Halo, behind_a_source_makes_another_placement) {
  const Placement padded = layout_of("[4{p}12 halo (0,2)]").inside(6);
  const Placement tiles = layout_of("[4{p}12] on [0, 1, 2, 3, 4, 5]").inside(6);
  EXPECT_EQ(padded.parts(0), tiles.parts(0));
  EXPECT_FALSE(padded.has_single_boxes());
  EXPECT_FALSE(padded == tiles) << "its memory is longer";
}

TEST(Halo, of_a_source_lies_as_its_order_says) {
  const Placement placement = layout_of("[4, 3{q}6 halo 1] order [1, 0]").inside(6);
  EXPECT_EQ(placement.parts(1), (std::vector<Part>{{{{0, 3}, {4, 6}}, 4, {1, 4}}}));
  EXPECT_EQ(placement.size(1), 16);
}

// The inside of a tile lies where the tile with its ghost zones has the same elements, and is all that the layout
// without them has.
TEST(Halo, of_a_source_is_the_layout_without_it_in_the_memory_of_the_one_with_it) {
  RandomProblems random(14);
  int grown = 0;
  for (int i = 0; i < 600; ++i) {
    const Shape shape = random.shape(static_cast<int>(1 + random.number(2)), {1, 2, 5, 7, 12, 16});
    const Layout form = i % 3 == 0 ? test::listed_layout(random, shape, 4) : test::any_form(random, shape, 6);
    const Layout layout = test::with_halo(random, form, i % 2 == 0 ? test::GhostZones::end : test::GhostZones::wrap);
    grown += layout == form ? 0 : 1;
    SCOPED_TRACE(describe(layout));
    const Placement tiles = form.placement();
    const Placement whole = layout.placement();
    const Placement inside = layout.inside(layout.device_count());
    for (Device device = 0; device < layout.device_count(); ++device) {
      EXPECT_EQ(inside.size(device), whole.size(device));
      const std::vector<Part> parts = inside.parts(device);
      ASSERT_EQ(parts.size(), tiles.parts(device).size());
      for (std::size_t part = 0; part < parts.size(); ++part) {
        EXPECT_EQ(parts[part].box, tiles.parts(device)[part].box);
        const std::vector<Part> all = whole.parts(device);  // several have the box where it is its own ghost zone
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Part& one) {
          return contains(one.box, parts[part].box) && place_of(one, parts[part].box.lo) == parts[part].offset &&
                 one.strides == parts[part].strides;
        }));
      }
    }
  }
  EXPECT_GT(grown, 100);
}

TEST(Halo, is_not_around_nothing) {
  EXPECT_EQ(layout_of("[2{p}4 halo 1]").placement().size(4), 0);
  EXPECT_EQ(layout_of("[2{p}4 halo 1]").placement().size(2), 3);
}

TEST(Halo, may_be_around_listed_boxes) {
  const Layout layout = layout_of("[10 halo 1 wrap] boxes {[0:3]; ; [3:10]}");
  EXPECT_THAT(elements_of(layout, 0), ElementsAre(9, 0, 1, 2, 3));
  EXPECT_EQ(layout.placement().size(1), 0);
  EXPECT_THAT(elements_of(layout, 2), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 0));
}

TEST(Order, is_that_of_memory) {
  const Placement placement = layout_of("[4, 3{q}6] order [1, 0]").placement();
  EXPECT_EQ(placement.parts(1), (std::vector<Part>{{{{0, 3}, {4, 6}}, 0, {1, 4}}}));
  EXPECT_FALSE(placement.has_single_boxes()) << "it is not packed row-major";
}

// --- The shape of a device's own array.

TEST(LocalShape, is_of_one_array_whatever_its_boxes) {
  EXPECT_EQ(layout_of("[12{p}36, 8]").local_shape(5), (Shape{12, 8}));
  EXPECT_EQ(layout_of("[2*9{p}27, 8] sum {q}").local_shape(0), (Shape{18, 8}));
  EXPECT_EQ(layout_of("[10 cyclic 2{p}, 7 cyclic 3{q}] order [1, 0]").local_shape(1), (Shape{3, 4}));
  EXPECT_EQ(layout_of("[10 cyclic 2{p}, 7 cyclic 3{q}]").local_shape(4), (Shape{2, 4}));
  EXPECT_EQ(layout_of("[4{p}10 halo (1,2) wrap, 3]").local_shape(0), (Shape{7, 3}));
  EXPECT_EQ(layout_of("[4{p}10 halo (1,2), 3 halo 1 wrap]").local_shape(4), (Shape{3, 5}));
  EXPECT_EQ(layout_of("[(5,3,2){p}10, 4] order [1, 0] on [6, 5, 4, 3, 2, 1]").local_shape(4), (Shape{4, 3}));
  EXPECT_EQ(layout_of("[4{p}10]").local_shape(4), (Shape{2}));
}

TEST(LocalShape, is_of_boxes_one_after_the_other_where_several_are_listed) {
  const Layout layout = layout_of("[8, 4] order [1, 0] boxes {[0:3, 0:4] [4:8, 0:4]; [3:4, 0:4]; ; [3:3, 0:4]}");
  EXPECT_EQ(layout.local_shape(0), (Shape{28}));
  EXPECT_EQ(layout.local_shape(1), (Shape{4, 1}));
  EXPECT_EQ(layout_of("[10 halo 1 wrap] boxes {[0:3]; ; [3:10]}").local_shape(2), (Shape{9}));
}

TEST(LocalShape, is_of_zeros_where_a_device_holds_nothing) {
  EXPECT_EQ(layout_of("[2{p}4 halo 1, 3]").local_shape(4), (Shape{0, 3}));
  EXPECT_EQ(layout_of("[4{p}10, 3] on [6, 5, 4, 3, 2, 1]").local_shape(0), (Shape{0, 0}));
  EXPECT_EQ(layout_of("[8] boxes {[0:8]; }").local_shape(1), (Shape{0}));
  EXPECT_EQ(layout_of("[8] boxes {[0:8]; }").local_shape(2), (Shape{0}));
}

TEST(LocalShape, has_as_many_elements_as_the_device) {
  RandomProblems random(13);
  for (int i = 0; i < 600; ++i) {
    const Shape shape = random.shape(static_cast<int>(1 + random.number(2)), {1, 2, 5, 7, 12, 16});
    const Layout form = i % 3 == 0 ? test::listed_layout(random, shape, 4) : test::any_form(random, shape, 6);
    const Layout layout = test::with_halo(random, form, i % 2 == 0 ? test::GhostZones::end : test::GhostZones::wrap);
    SCOPED_TRACE(describe(layout));
    const Placement placement = layout.placement();
    std::int64_t most = 0;
    for (Device device = 0; device < layout.device_count(); ++device) {
      ASSERT_EQ(product(layout.local_shape(device)), placement.size(device)) << device;
      most = std::max(most, placement.size(device));
    }
    EXPECT_EQ(layout.local_size(), most);
  }
}

// --- Any view shows the same elements in the same memory.

using Memory = std::map<std::int64_t, std::int64_t>;  // by place in memory, the number of the element

Memory memory_of(const Placement& placement, const std::vector<Shape>& view, Device device) {
  Memory memory;
  for (const Part& part : placement.parts(device)) {
    Shape index = part.box.lo;
    for (bool is_done = volume(part.box) == 0; !is_done;) {
      std::int64_t place = part.offset;
      std::int64_t number = 0;
      std::size_t at = 0;
      for (const Shape& factors : view) {
        std::int64_t element = 0;
        for (const std::int64_t factor : factors) {
          place += (index[at] - part.box.lo[at]) * part.strides[at];
          element = element * factor + index[at++];
        }
        number = number * 1000 + element;
      }
      EXPECT_TRUE(memory.emplace(place, number).second) << "elements share memory";
      is_done = true;
      for (std::size_t i = index.size(); i-- > 0 && is_done;) {
        is_done = ++index[i] == part.box.hi[i];
        if (is_done) index[i] = part.box.lo[i];
      }
    }
  }
  return memory;
}

TEST(Views, show_the_same_elements_in_the_same_memory) {
  RandomProblems random(12);
  for (int i = 0; i < 600; ++i) {
    const Shape shape = random.shape(static_cast<int>(1 + random.number(2)), {1, 2, 5, 7, 12, 16});
    const Layout layout = i % 3 == 0 ? test::listed_layout(random, shape, 4) : test::any_form(random, shape, 6);
    std::vector<Shape> whole;
    std::vector<Shape> view;
    for (const std::int64_t size : shape) {
      whole.push_back({size});
      const auto inner = static_cast<std::int64_t>(1 + random.number(5));
      const auto middle = static_cast<std::int64_t>(1 + random.number(3));
      Shape factors{divide_up(size, inner), inner};
      if (size % (inner * middle) == 0) factors = {size / (inner * middle), middle, inner};
      view.push_back(random.number(4) == 0 ? Shape{size} : factors);
    }
    SCOPED_TRACE(describe(layout) + " seen in " + to_string(view[0]));
    const Placement plain = layout.placement();
    const Placement seen = layout.placement(layout.device_count(), {{}, view});
    for (Device device = 0; device < layout.device_count(); ++device) {
      ASSERT_EQ(memory_of(seen, view, device), memory_of(plain, whole, device)) << device;
      EXPECT_EQ(seen.size(device), plain.size(device));
    }
  }
}

TEST(Views, show_blocks_in_the_same_place_of_every_period_as_one_box) {
  const Layout layout = layout_of("[1000 cyclic 4{p}, 50 cyclic 5{q}]");
  EXPECT_EQ(layout.placement().parts(0).size(), std::size_t{84 * 5});
  const Placement seen = layout.placement(6, {{}, {{42, 24}, {5, 10}}});
  EXPECT_EQ(seen.global_shape(), (Shape{42, 24, 5, 10}));
  // 41 periods and 16 elements: the second block of a period is not in the last one.
  EXPECT_EQ(seen.parts(0), (std::vector<Part>{{{{0, 0, 0, 0}, {42, 4, 5, 5}}, 0, {200, 25, 5, 1}},
                                              {{{0, 12, 0, 0}, {42, 16, 5, 5}}, 100, {200, 25, 5, 1}}}));
}

TEST(Views, need_no_time_for_long_dimensions) {
  const Layout layout = layout_of("[300000000000{p}900000000000]");
  const Placement seen = layout.placement(6, {{}, {{900000000000, 1}}});
  EXPECT_EQ(seen.parts(2), (std::vector<Part>{{{{300000000000, 0}, {600000000000, 1}}, 0, {1, 1}}}));
}

TEST(MovedArray, goes_on_beyond_its_ends_where_a_halo_wraps) {
  const Layout target = layout_of("[4{p}10 halo (1,2) wrap]");
  const MovedArray array = moved_array(target);
  const Placement to = target.placement(6, array);
  EXPECT_EQ(to.global_shape(), (Shape{13}));
  EXPECT_EQ(to.box(0), (Box{{0}, {7}}));
  EXPECT_EQ(to.box(4), (Box{{8}, {13}}));
  const Placement from = layout_of("[4{p}10]").placement(6, array);
  EXPECT_EQ(from.parts(0), (std::vector<Part>{{{{1}, {5}}, 0, {1}}, {{{11}, {13}}, 0, {1}}}));
  EXPECT_EQ(from.parts(4), (std::vector<Part>{{{{0}, {1}}, 1, {1}}, {{{9}, {11}}, 0, {1}}}));
  EXPECT_EQ(from.size(4), 2) << "what is held twice is in memory once";
  EXPECT_TRUE(moved_array(layout_of("[4{p}10 halo 1]")).margins.empty());
}

// --- What is wrong.

TEST(LayoutFormsFault, blocks) {
  EXPECT_EQ(read("[10 cyclic 2{p} from 3]"),
            "layout:1:2: error: the first block is on device 3 of 3\n"
            "    1 | [10 cyclic 2{p} from 3]\n"
            "      |  ^~~~~~~~~~~~~~~~~~~~~\n"
            "hint: devices along the axes count from 0 to 2\n");
  EXPECT_EQ(read("[2*10 cyclic 2{p}]"),
            "layout:1:4: error: a dimension in factors is cut by the rule\n"
            "    1 | [2*10 cyclic 2{p}]\n"
            "      |    ^~~~~~~~~~~~~~\n"
            "hint: blocks and listed tiles are of dimensions that are whole\n");
  EXPECT_EQ(read("[10 cyclic 0{p}]"),
            "layout:1:12: error: the size of a block is 0\n"
            "    1 | [10 cyclic 0{p}]\n"
            "      |            ^\n"
            "hint: sizes start at 1\n");
  EXPECT_EQ(read("[10000000 cyclic 2{p}]"),
            "layout:1:2: error: 5000000 blocks are too many to be listed\n"
            "    1 | [10000000 cyclic 2{p}]\n"
            "      |  ^~~~~~~~~~~~~~~~~~~~\n"
            "hint: a dimension has up to 4194304\n");
  EXPECT_EQ(read("[10 cyclic 2]"),
            "layout:1:13: error: expected '{' before the axes that blocks are dealt out along, found ']'\n"
            "    1 | [10 cyclic 2]\n"
            "      |             ^\n");
  EXPECT_EQ(read("[10 cyclic 2{p}] sum {q}"),
            "layout:1:23: error: a sum has tiles that are cut by a rule, row-major and without halo\n"
            "    1 | [10 cyclic 2{p}] sum {q}\n"
            "      |                       ^\n"
            "hint: redistribute it to the other layout afterwards\n");
}

TEST(LayoutFormsFault, listed_tiles) {
  EXPECT_EQ(read("[(5,3){p}10]"),
            "layout:1:2: error: the list has 2 tiles with 8 elements, not 3 with 10\n"
            "    1 | [(5,3){p}10]\n"
            "      |  ^~~~~~~~~~\n"
            "hint: list the size of every tile along the axes\n");
  EXPECT_EQ(read("[(5,3,1){p}10]"),
            "layout:1:2: error: the list has 3 tiles with 9 elements, not 3 with 10\n"
            "    1 | [(5,3,1){p}10]\n"
            "      |  ^~~~~~~~~~~~\n"
            "hint: list the size of every tile along the axes\n");
  EXPECT_EQ(read("[(5,5) 10]"),
            "layout:1:8: error: expected '{' before the axes that tiles lie along, found '10'\n"
            "    1 | [(5,5) 10]\n"
            "      |        ^~\n");
}

TEST(LayoutFormsFault, halos) {
  EXPECT_EQ(read("[4{p}10 halo (4,3) wrap]"),
            "layout:1:2: error: a halo of 4 and 3 around a tile of 4 wraps round 10 elements more than once\n"
            "    1 | [4{p}10 halo (4,3) wrap]\n"
            "      |  ^~~~~~~~~~~~~~~~~~~~~~\n"
            "hint: a tile and its ghost zones hold each element once\n");
  EXPECT_EQ(read("[10 cyclic 2{p} halo 1]"),
            "layout:1:2: error: a halo is around one tile\n"
            "    1 | [10 cyclic 2{p} halo 1]\n"
            "      |  ^~~~~~~~~~~~~~~~~~~~~\n"
            "hint: dimensions in blocks or factors have none\n");
  EXPECT_EQ(
      read("[4 halo (1 2)]"),
      "layout:1:12: error: expected ',' between the widths of the ghost zones before and after a tile, found '2'\n"
      "    1 | [4 halo (1 2)]\n"
      "      |            ^\n");
  EXPECT_EQ(read("[4 halo -1]"),
            "layout:1:9: error: the width of ghost zones is negative\n"
            "    1 | [4 halo -1]\n"
            "      |         ^~\n");
  EXPECT_EQ(read("[10 halo 1] boxes {[0:3] [7:10]; [3:7]}"),
            "layout:1:26: error: a halo is around one box\n"
            "    1 | [10 halo 1] boxes {[0:3] [7:10]; [3:7]}\n"
            "      |                          ^~~~~~\n"
            "hint: list one for each device\n");
  EXPECT_EQ(read("[10 halo 9223372036854775807] boxes {[0:10]}"),
            "layout:1:1: error: the number of elements of the global array and its halo does not fit in 63 bits\n"
            "    1 | [10 halo 9223372036854775807] boxes {[0:10]}\n"
            "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");
  EXPECT_EQ(read("[3000000000, 3000000000 halo 100000000]"),
            "layout:1:1: error: the number of elements of the global array and its halo does not fit in 63 bits\n"
            "    1 | [3000000000, 3000000000 halo 100000000]\n"
            "      | ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\n");
}

TEST(LayoutFormsFault, orders) {
  EXPECT_EQ(read("[4, 3{q}6] order [1, 1]"),
            "layout:1:12: error: [1, 1] is no order of 2 dimensions\n"
            "    1 | [4, 3{q}6] order [1, 1]\n"
            "      |            ^~~~~~~~~~~~\n"
            "hint: list each dimension once, the outermost in memory first\n");
  EXPECT_EQ(read("[4, 6] order [0] boxes {[0:4, 0:6]}"),
            "layout:1:8: error: [0] is no order of 2 dimensions\n"
            "    1 | [4, 6] order [0] boxes {[0:4, 0:6]}\n"
            "      |        ^~~~~~~~~\n"
            "hint: list each dimension once, the outermost in memory first\n");
}

}  // namespace
}  // namespace retile
