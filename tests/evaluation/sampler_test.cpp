#include "evaluation/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "retile/types/text.h"

namespace retile::evaluation {
namespace {

std::string text_of(const Problem& problem) {
  return problem.id() + ": " + to_string(problem.source()) + " to " + to_string(problem.target());
}

TEST(Sampler, is_deterministic_by_seed) {
  SampleOptions options;
  EXPECT_EQ(text_of(sample_problem(options, 0)),
            "sample-0000: [7{b}14, 48{a,c}192, 55, 237] to [14, 24{b,a,c}192, 55, 237]");
  EXPECT_EQ(text_of(sample_problem(options, 999)), "sample-0999: [90472, 176{c,a}704] to [22618{a,b}90472, 352{c}704]");
  options.seed = 1;
  EXPECT_EQ(text_of(sample_problem(options, 0)), "sample-0000: [28{a}56, 1316, 1344] to [28{a}56, 329{b,c}1316, 1344]");
}

TEST(Sampler, stays_within_its_ranges) {
  SampleOptions options;
  options.axes = {2, 3, 4};
  options.least_rank = 2;
  options.most_rank = 4;
  options.least_bytes = 1'000'000;
  options.most_bytes = 2'000'000;
  options.element_type = ElementType::f64;
  std::set<int> ranks;
  std::set<std::string> seen;
  int replicated = 0;
  for (int i = 0; i < 500; ++i) {
    const Problem problem = sample_problem(options, i);
    EXPECT_EQ(to_string(require_typed(problem).mesh()), "{a: 2, b: 3, c: 4}");
    EXPECT_EQ(problem.element_type(), ElementType::f64);
    const std::int64_t bytes = require_typed(problem).source().global_size() * 8;
    EXPECT_GE(bytes, options.least_bytes) << text_of(problem);
    EXPECT_LE(bytes, options.most_bytes) << text_of(problem);
    ranks.insert(problem.source().rank());
    seen.insert(text_of(problem).substr(text_of(problem).find(':')));
    replicated += require_typed(problem).source().free_primes().empty() ? 0 : 1;
  }
  EXPECT_THAT(ranks, testing::ElementsAre(2, 3, 4));
  EXPECT_EQ(seen.size(), 500U) << "problems differ";
  // With three axes, each on one of r dimensions or none, 1 - (r / (r + 1))^3 have a replicated one: 70 % to 49 %.
  EXPECT_GT(replicated, 250);
  EXPECT_LT(replicated, 350);
}

TEST(Sampler, says_what_cannot_be_sampled) {
  const auto error_with = [](const SampleOptions& options) -> std::string {
    try {
      sample_problem(options, 0);
    } catch (const InputError& error) {
      return error.diagnostic().message;
    }
    return "no error";
  };
  SampleOptions options;
  options.least_rank = 3;
  options.most_rank = 2;
  EXPECT_EQ(error_with(options), "the least rank is above the most");
  options = {};
  options.least_bytes = 3;
  EXPECT_EQ(error_with(options), "the least size is above the most, or below one element");
  options = {};
  options.axes = std::vector<std::int64_t>(13, 4);  // no layouts of any likelihood leave so small an array
  options.least_bytes = 4;
  options.most_bytes = 8;
  EXPECT_EQ(error_with(options), "no array of such a size can be cut along the axes of the mesh");
  options.axes = std::vector<std::int64_t>(27, 1);
  EXPECT_EQ(error_with(options), "27 axes are more than letters");
}

TEST(ScaleProblem, keeps_layouts_and_shrinks_arrays) {
  for (int i = 0; i < 200; ++i) {
    const Problem problem = sample_problem({}, i);
    for (const double factor : {1.0, 0.3, 0.01, 1e-4}) {
      const Problem scaled = scale_problem(problem, factor);
      EXPECT_EQ(scaled.id(), problem.id());
      const auto share = static_cast<double>(require_typed(scaled).source().global_size()) /
                         static_cast<double>(require_typed(problem).source().global_size());
      EXPECT_LE(share, factor) << text_of(scaled);
      EXPECT_GT(share, factor / 4) << text_of(scaled);
      for (int d = 0; d < problem.source().rank(); ++d) {
        EXPECT_EQ(require_typed(scaled).source().dimension(d).axes, require_typed(problem).source().dimension(d).axes);
        EXPECT_EQ(require_typed(scaled).target().dimension(d).axes, require_typed(problem).target().dimension(d).axes);
      }
    }
  }
}

TEST(ScaleProblem, stops_where_tiles_are_single_elements) {
  const Mesh mesh = parse_mesh("a=4,b=3");
  const Problem problem("p", parse_type("[4{a}16, 5]", mesh), parse_type("[16, 5]", mesh));
  EXPECT_EQ(text_of(scale_problem(problem, 1e-9)), "p: [1{a}4, 1] to [4, 1]");
}

TEST(Adversarial, has_the_sizes_of_the_paper) {
  std::vector<std::string> sizes;
  for (const Problem& problem : adversarial_problems()) {
    sizes.push_back(problem.id() + " " + std::to_string(require_typed(problem).source().global_size() * 4 / (1 << 20)));
  }
  // The paper's table says 162 MB, 113 MB, 127 MB and 64 MB; those are MiB, and P4's elements must have 4 bytes.
  EXPECT_THAT(sizes, testing::ElementsAre("P1 161", "P2 112", "P3 126", "P4 64"));
}

}  // namespace
}  // namespace retile::evaluation
