#include "retile/planner/periods.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/plan/json.h"
#include "retile/plan/verify.h"
#include "retile/planner/planner.h"
#include "tests/support/layouts.h"

namespace retile {
namespace {

std::vector<Shape> periods_of(const char* source, const char* target) {
  return find_periods(test::problem_of({"p=2,q=2", source, "p=2,q=2", target}));
}

TEST(Periods, are_those_of_both_ends) {
  EXPECT_EQ(periods_of("[1000 cyclic 32{p}, 100]", "[1000 cyclic 48{q}, 100]"), (std::vector<Shape>{{6, 192}, {100}}));
  EXPECT_EQ(periods_of("[1000 cyclic 32{p}]", "[1000]"), (std::vector<Shape>{{16, 64}}));
  EXPECT_EQ(periods_of("[1000]", "[1000 cyclic 32{p} from 1]"), (std::vector<Shape>{{16, 64}}));
  EXPECT_EQ(periods_of("[20*1{p}2*25]", "[1000 cyclic 20{p}]"), (std::vector<Shape>{{5, 200}}));
}

TEST(Periods, are_none_where_nothing_repeats) {
  EXPECT_EQ(periods_of("[500{p}1000]", "[500{q}1000]"), std::vector<Shape>{});
  EXPECT_EQ(periods_of("[1000 cyclic 300{p}]", "[1000]"), std::vector<Shape>{});
  EXPECT_EQ(periods_of("[1000 cyclic 9223372036854775807{p} from 1]", "[1000 cyclic 3{q}]"), std::vector<Shape>{});
}

TEST(Periods, are_none_where_the_last_one_is_beyond_63_bits) {
  EXPECT_EQ(periods_of("[3037000499 cyclic 1500000000{p} from 1, 3037000499]", "[3037000499, 3037000499]"),
            std::vector<Shape>{});
  EXPECT_EQ(periods_of("[3037000499 cyclic 700000000{p} from 1, 3037000499]", "[3037000499, 3037000499]"),
            std::vector<Shape>{});
}

TEST(Periods, leave_dimensions_alone_that_wrap) {
  EXPECT_EQ(periods_of("[100 cyclic 3{p}, 10 cyclic 2{q}]", "[100, 5{p}10 halo 1 wrap]"),
            (std::vector<Shape>{{17, 6}, {12}}));
}

// Blocks of a matrix are hundreds of thousands; what moves is told by some.
TEST(Periods, keep_plans_of_large_matrices_small) {
  const Problem problem = test::problem_of({"p=2,q=2", "[20001 cyclic 32{p}, 20003 cyclic 32{q} from 1]", "p=2,q=2",
                                            "[20001 cyclic 48{q}, 20003 cyclic 48{p}]"});
  const Plan plan = make_plan(problem);
  EXPECT_EQ(find_faults(plan), std::vector<std::string>{});
  EXPECT_LT(to_json(plan).size(), std::size_t{200000});
  const StatedPlan stated = parse_plan({"plan", to_json(plan)});
  EXPECT_EQ(find_faults(stated.plan, stated.statements), std::vector<std::string>{});
}

}  // namespace
}  // namespace retile
