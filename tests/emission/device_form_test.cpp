#include "retile/emission/device_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "retile/types/text.h"

namespace retile::emission {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::string form_text(const Mesh& mesh, const std::vector<std::int64_t>& numbers) {
  const auto form = find_form(mesh, numbers);
  if (!form) return "none";
  return expression_of(*form,
                       [&](const DigitTerm& term) { return digit_text(term, mesh.device_count(), "rank", "/"); });
}

TEST(DeviceForm, says_numbers_by_digits) {
  const Mesh mesh = parse_mesh("x=2,y=4");
  EXPECT_EQ(form_text(mesh, {5, 5, 5, 5, 5, 5, 5, 5}), "5");
  EXPECT_EQ(form_text(mesh, {0, 1, 2, 3, 4, 5, 6, 7}), "rank");
  EXPECT_EQ(form_text(mesh, {0, 0, 0, 0, 8, 8, 8, 8}), "rank / 4 * 8");
  EXPECT_EQ(form_text(mesh, {1, 4, 7, 10, 1, 4, 7, 10}), "rank % 4 * 3 + 1");
  EXPECT_EQ(form_text(mesh, {0, 2, 1, 3, 0, 2, 1, 3}), "rank / 2 % 2 + rank % 2 * 2");
  EXPECT_EQ(form_text(mesh, {3, 2, 1, 0, 3, 2, 1, 0}), "3 - rank % 4");
  EXPECT_EQ(form_text(mesh, {0, 1, 3, 2, 0, 1, 3, 2}), "none");
}

TEST(DeviceForm, has_digits_of_every_prime) {
  EXPECT_EQ(form_text(parse_mesh("x=6,y=2"), {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}), "rank / 2");
  EXPECT_EQ(form_text(parse_mesh("x=6"), {0, 1, 2, 0, 1, 2}), "rank % 3");
  EXPECT_EQ(form_text(parse_mesh("x=6"), {0, 1, 0, 1, 0, 1}), "none");  // 6 is 2 times 3, from major to minor
}

TEST(GroupAxes, are_those_that_members_lie_along_in_order) {
  const Mesh mesh = parse_mesh("x=2,y=4");
  EXPECT_THAT(find_group_axes(mesh, {{0, 1, 2, 3}, {4, 5, 6, 7}}), Optional(ElementsAre(1)));
  EXPECT_THAT(find_group_axes(mesh, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}), Optional(ElementsAre(0)));
  EXPECT_THAT(find_group_axes(mesh, {{0, 1, 2, 3, 4, 5, 6, 7}}), Optional(ElementsAre(0, 1)));
  EXPECT_THAT(find_group_axes(mesh, {{0, 4, 1, 5, 2, 6, 3, 7}}), Optional(ElementsAre(1, 0)));
  EXPECT_EQ(find_group_axes(mesh, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}), std::nullopt);  // half of an axis
  EXPECT_EQ(find_group_axes(mesh, {{1, 0, 2, 3}, {4, 5, 6, 7}}), std::nullopt);
  EXPECT_EQ(find_group_axes(mesh, {{0, 4}, {1, 5}, {2, 7}, {3, 6}}), std::nullopt);
}

TEST(CutAxes, are_those_that_make_the_tiles) {
  const Mesh mesh = parse_mesh("x=2,y=4");
  EXPECT_THAT(find_cut_axes(mesh, *find_form(mesh, {0, 3, 6, 9, 0, 3, 6, 9}), 3), Optional(ElementsAre(1)));
  EXPECT_THAT(find_cut_axes(mesh, *find_form(mesh, {0, 2, 4, 6, 1, 3, 5, 7}), 1), Optional(ElementsAre(1, 0)));
  EXPECT_THAT(find_cut_axes(mesh, *find_form(mesh, {0, 1, 2, 3, 4, 5, 6, 7}), 1), Optional(ElementsAre(0, 1)));
  EXPECT_EQ(find_cut_axes(mesh, *find_form(mesh, {0, 3, 6, 9, 0, 3, 6, 9}), 2), std::nullopt);
  EXPECT_EQ(find_cut_axes(mesh, *find_form(mesh, {1, 2, 3, 4, 1, 2, 3, 4}), 1), std::nullopt);
}

TEST(RefinedMesh, splits_axes_where_parts_have_it) {
  const Mesh mesh = parse_mesh("x=8,x_0=3");
  EXPECT_EQ(to_string(refine(mesh, {mesh.whole(0), mesh.whole(1)})), "{x: 8, x_0: 3}");
  EXPECT_EQ(to_string(refine(mesh, {{0, 2, 2}})), "{x_0_: 2, x_1: 2, x_2: 2, x_0: 3}");
}

}  // namespace
}  // namespace retile::emission
