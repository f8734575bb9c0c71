#include "retile/types/box.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <functional>

namespace retile {
namespace {

constexpr std::int64_t edge = 7;  // random boxes lie within edge elements along each dimension

Box arbitrary_box(int rank) {
  Box box;
  for (int i = 0; i < rank; ++i) {
    box.lo.push_back(*rc::gen::inRange<std::int64_t>(0, edge));
    box.hi.push_back(*rc::gen::inRange<std::int64_t>(box.lo.back() + 1, edge + 1));
  }
  return box;
}

bool holds(const Box& box, const Shape& element) { return contains(box, box_at(element, Shape(element.size(), 1))); }

void for_each_element(int rank, const std::function<void(const Shape&)>& visit) {
  Shape element(static_cast<std::size_t>(rank), 0);
  while (true) {
    visit(element);
    std::size_t i = 0;
    for (; i < element.size() && ++element[i] == edge; ++i) element[i] = 0;
    if (i == element.size()) return;
  }
}

TEST(Box, at_a_corner) {
  EXPECT_EQ(box_at({2, 3}, {4, 5}), (Box{{2, 3}, {6, 8}}));
  EXPECT_EQ(box_at({}, {}), (Box{{}, {}}));
}

TEST(Box, volume) {
  EXPECT_EQ(volume({{2, 3}, {6, 8}}), 20);
  EXPECT_EQ(volume({{}, {}}), 1);
}

TEST(Box, contains_itself_and_what_is_inside) {
  const Box box{{2, 3}, {6, 8}};
  EXPECT_TRUE(contains(box, box));
  EXPECT_TRUE(contains(box, {{3, 3}, {4, 8}}));
  EXPECT_FALSE(contains(box, {{1, 3}, {4, 8}}));
  EXPECT_FALSE(contains(box, {{3, 3}, {4, 9}}));
}

TEST(Box, intersect) {
  EXPECT_EQ(intersect({{0, 0}, {4, 4}}, {{2, 1}, {8, 3}}), (Box{{2, 1}, {4, 3}}));
  EXPECT_EQ(intersect({{0, 0}, {4, 4}}, {{4, 0}, {8, 4}}), std::nullopt);  // they touch
  EXPECT_EQ(intersect(Box{{}, {}}, Box{{}, {}}), (Box{{}, {}}));
}

TEST(Box, subtract) {
  using Boxes = std::vector<Box>;
  const Box box{{0, 0}, {4, 4}};
  EXPECT_EQ(subtract(box, {{4, 0}, {8, 4}}), Boxes{box});
  EXPECT_EQ(subtract(box, {{-1, -1}, {9, 9}}), Boxes{});
  EXPECT_EQ(subtract(box, {{0, 2}, {4, 9}}), (Boxes{{{0, 0}, {4, 2}}}));
  EXPECT_EQ(subtract(box, {{1, 1}, {2, 3}}),
            (Boxes{{{0, 0}, {1, 4}}, {{2, 0}, {4, 4}}, {{1, 0}, {2, 1}}, {{1, 3}, {2, 4}}}));
  EXPECT_EQ(subtract({{}, {}}, {{}, {}}), Boxes{});
}

TEST(Box, text) {
  EXPECT_EQ(to_string(Box{{0, 8}, {4, 16}}), "[0:4, 8:16]");
  EXPECT_EQ(to_string(Box{{}, {}}), "[]");
}

RC_GTEST_PROP(Box, has_as_many_elements_as_its_volume, ()) {
  const int rank = *rc::gen::inRange(0, 4);
  const Box box = arbitrary_box(rank);
  std::int64_t elements = 0;
  for_each_element(rank, [&](const Shape& element) { elements += holds(box, element) ? 1 : 0; });
  RC_ASSERT(elements == volume(box));
}

RC_GTEST_PROP(Box, intersect_holds_what_both_hold, ()) {
  const int rank = *rc::gen::inRange(0, 4);
  const Box a = arbitrary_box(rank);
  const Box b = arbitrary_box(rank);
  const std::optional<Box> shared = intersect(a, b);
  RC_ASSERT(shared == intersect(b, a));
  for_each_element(rank, [&](const Shape& element) {
    const bool in_shared = shared && holds(*shared, element);
    RC_ASSERT(in_shared == (holds(a, element) && holds(b, element)));
  });
}

RC_GTEST_PROP(Box, subtract_leaves_each_element_outside_the_hole_in_one_piece, ()) {
  const int rank = *rc::gen::inRange(0, 4);
  const Box box = arbitrary_box(rank);
  const Box hole = arbitrary_box(rank);
  const std::vector<Box> pieces = subtract(box, hole);
  RC_ASSERT(pieces.size() <= static_cast<std::size_t>(std::max(1, 2 * rank)));
  for_each_element(rank, [&](const Shape& element) {
    const auto holders =
        std::count_if(pieces.begin(), pieces.end(), [&](const Box& piece) { return holds(piece, element); });
    RC_ASSERT(holders == (holds(box, element) && !holds(hole, element) ? 1 : 0));
  });
}

RC_GTEST_PROP(Box, subtract_leaves_the_volume_less_what_is_shared, ()) {
  const int rank = *rc::gen::inRange(0, 6);
  const Box box = arbitrary_box(rank);
  const Box hole = arbitrary_box(rank);
  const std::vector<Box> pieces = subtract(box, hole);
  std::int64_t left = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    left += volume(pieces[i]);
    for (std::size_t j = 0; j < i; ++j) RC_ASSERT(!intersect(pieces[i], pieces[j]));
  }
  const std::optional<Box> shared = intersect(box, hole);
  RC_ASSERT(left == volume(box) - (shared ? volume(*shared) : 0));
}

RC_GTEST_PROP(Box, parts_that_are_found_are_covered_so_often, ()) {
  const int rank = *rc::gen::inRange(0, 4);
  const Box box = arbitrary_box(rank);
  std::vector<Box> boxes(static_cast<std::size_t>(*rc::gen::inRange(0, 9)));
  for (Box& other : boxes) other = arbitrary_box(rank);
  const std::optional<Box> uncovered = find_uncovered(box, boxes);
  const std::optional<Box> twice = find_covered_twice(box, boxes);
  RC_ASSERT((!uncovered || contains(box, *uncovered)));
  RC_ASSERT((!twice || contains(box, *twice)));
  for_each_element(rank, [&](const Shape& element) {
    if (!holds(box, element)) return;
    const auto covers =
        std::count_if(boxes.begin(), boxes.end(), [&](const Box& other) { return holds(other, element); });
    RC_ASSERT((covers > 0 ? !(uncovered && holds(*uncovered, element)) : uncovered.has_value()));
    RC_ASSERT((covers < 2 ? !(twice && holds(*twice, element)) : twice.has_value()));
  });
}

}  // namespace
}  // namespace retile
