#include "retile/base/nearest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace retile {
namespace {

const std::vector<std::string> names{"planner", "problems", "json", "X"};

TEST(NearestName, takes_the_fewest_edits) {
  EXPECT_EQ(nearest_name("plannner", names), "planner");
  EXPECT_EQ(nearest_name("problem", names), "problems");
  EXPECT_EQ(nearest_name("jsn", names), "json");
}

TEST(NearestName, does_not_regard_case) {
  EXPECT_EQ(nearest_name("JSON", names), "json");
  EXPECT_EQ(nearest_name("x", names), "X");
}

TEST(NearestName, is_none_where_all_are_too_far_away) {
  EXPECT_EQ(nearest_name("transport", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
  EXPECT_EQ(nearest_name("y", names), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(1000, 'x'), names), std::nullopt);
  EXPECT_EQ(nearest_name("json", {}), std::nullopt);
}

TEST(SplitNames, takes_commas_and_spaces) {
  EXPECT_EQ(split_names("ceil, nested, balanced"), (std::vector<std::string>{"ceil", "nested", "balanced"}));
  EXPECT_EQ(split_names("i8 f16"), (std::vector<std::string>{"i8", "f16"}));
  EXPECT_EQ(split_names(""), std::vector<std::string>{});
}

}  // namespace
}  // namespace retile
