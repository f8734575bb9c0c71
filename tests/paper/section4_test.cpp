// Section 4, formal semantics: base-offset maps, sequences and their normal form. The lemmas of the rewriting are
// checked over all short sequences on small meshes.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <set>

#include "retile/collectives/rewriting.h"
#include "retile/collectives/sequence.h"
#include "retile/types/text.h"
#include "tests/support/collectives.h"
#include "tests/support/enumerate.h"
#include "tests/support/step_replay.h"

namespace retile::test {
namespace {

// --- Base-offset maps.

TEST(Section4, lem_multiples_in_image) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(16)) {
    for (const DistributedType& type : all_prime_types(mesh, {mesh.device_count() * 3})) {
      std::set<std::int64_t> image;
      std::set<std::int64_t> multiples;
      for (Device device = 0; device < mesh.device_count(); ++device) image.insert(type.base_offset(device)[0]);
      for (std::int64_t i = 0; i < type.dimension(0).global; i += type.dimension(0).tile) multiples.insert(i);
      ASSERT_EQ(image, multiples) << to_string(type);
      ++count;
    }
  }
  EXPECT_GT(count, 300);
}

// "Below" is meant component by component: every corner of the grid of tiles, and no other.
TEST(Section4, lem_base_offsets_in_image) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(12)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      std::set<Shape> image;
      std::set<Shape> corners;
      for (Device device = 0; device < mesh.device_count(); ++device) image.insert(type.base_offset(device));
      for (std::int64_t i = 0; i < type.dimension(0).global; i += type.dimension(0).tile) {
        for (std::int64_t j = 0; j < type.dimension(1).global; j += type.dimension(1).tile) corners.insert({i, j});
      }
      ASSERT_EQ(image, corners) << to_string(type);
      ++count;
    }
  }
  EXPECT_GT(count, 500);
}

// --- eq:naive-redistribution.

TEST(Section4, eq_naive_redistribution_and_eq_max_of_localsizes) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(6)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& source : types) {
      for (const DistributedType& target : types) {
        const Sequence naive = gather_and_slice(source, target);
        ASSERT_TRUE(std::regex_match(kinds(naive), std::regex("g*s*")));
        ASSERT_TRUE(same_placement(naive.target(), target));
        const std::int64_t ends = std::max(source.local_size(), target.local_size());
        ASSERT_TRUE(naive.size() == 0 || height(naive) == source.global_size());
        ASSERT_GE(height(naive), ends);
        ++count;
      }
    }
  }
  EXPECT_GT(count, 500);
}

TEST(Section4, def_semantics_definition_height) {
  const Sequence sequence = sequence_of(R"(mesh {a: 2, b: 3}
    [2{a}4, 3{b}9] -> allgather(0) [4, 3{b}9] -> allgather(1) [4, 9] -> dynslice(1; b) [4, 3{b}9])");
  EXPECT_EQ(height(sequence), 36);
}

// A normal form solves the memory-constrained problem, eq:memory-constraint.
TEST(Section4, def_normal_form_keeps_within_its_ends) {
  std::int64_t normal = 0;
  for (const Mesh& mesh : prime_meshes(8)) {
    for (const DistributedType& type : all_prime_types(mesh, divisible_shape(mesh, 2))) {
      for_each_sequence(Sequence(type), 3, single_axis_collectives, [&](const Sequence& sequence) {
        if (!is_normal_form(sequence)) return;
        ASSERT_LE(height(sequence), std::max(sequence.source().local_size(), sequence.target().local_size()));
        ++normal;
      });
    }
  }
  EXPECT_GT(normal, 2000);
}

// --- lem:peak and lem:edges.

// A pair of neighbours as the lemmas see it, and where it stands.
struct Pair {
  const DistributedType& start;
  const Collective& first;
  const Collective& second;
};

struct Case {
  CollectiveKind first;
  CollectiveKind second;
  std::function<bool(const Pair&)> holds;
  const char* rule;
  const char* kinds;  // of the sequence that the proof constructs
};

const AxisPart& axis_of(const Collective& step) { return axes_of(step).front(); }
bool same_axis(const Pair& pair) { return axis_of(pair.first) == axis_of(pair.second); }
bool same_size(const Pair& pair) { return axis_of(pair.first).size == axis_of(pair.second).size; }

// The dimension of a dynslice or allgather.
int dimension_of(const Collective& step) {
  const auto* slice = std::get_if<DynSlice>(&step);
  return slice != nullptr ? slice->dimension : std::get<AllGather>(step).dimension;
}
bool same_dimension(const Pair& pair) { return dimension_of(pair.first) == dimension_of(pair.second); }

bool between_ends(const Sequence& sequence) {
  return height(sequence) <= std::max(sequence.source().local_size(), sequence.target().local_size());
}

// What the lemmas promise of a sequence in the place of a pair.
bool is_as_promised(const Sequence& result, const Case& expected) {
  const std::string labels = kinds(result);
  const bool few_alltoalls = std::count(labels.begin(), labels.end(), 'a') <= 1;
  if (expected.first == CollectiveKind::allgather && expected.second == CollectiveKind::dynslice) {
    return labels.size() <= 3 && between_ends(result);  // lem:peak
  }
  const char* edge = expected.first == CollectiveKind::allgather ? "[ap]{0,2}g" : "s[ap]{0,2}";
  return few_alltoalls && std::regex_match(labels, std::regex(edge)) && between_ends(result);
}

void check_pair(const Pair& pair, const Case& expected) {
  const Sequence sequence(pair.start, {pair.first, pair.second});
  const Trace normalization = trace_normalization(sequence);
  ASSERT_FALSE(normalization.rewritings.empty()) << to_string(sequence);
  const auto& [rewriting, after] = normalization.rewritings.front();
  ASSERT_EQ(rewriting.rule, expected.rule) << to_string(sequence);
  ASSERT_EQ(kinds(after), expected.kinds) << to_string(sequence) << to_string(after);
  ASSERT_EQ(rewriting.first, 0U);
  ASSERT_EQ(rewriting.replaced, 2U);
  ASSERT_EQ(rewriting.added.size(), after.size());
  ASSERT_TRUE(is_as_promised(after, expected)) << to_string(sequence) << to_string(after);
  ASSERT_TRUE(same_boxes(Placement(after.source()), Placement(sequence.source())));
  ASSERT_TRUE(same_boxes(Placement(after.target()), Placement(sequence.target())));
  ASSERT_TRUE(is_normal_form(normalization.result()));
  for (std::size_t i = 0; i < after.size(); ++i) {
    const PhysicalStep step = physical_step(after.types()[i], after.steps()[i]);
    ASSERT_EQ(find_replay_fault(step), "") << to_string(after);
  }
}

std::vector<Collective> steps_of_kind(const DistributedType& type, CollectiveKind kind,
                                      const std::vector<DistributedType>& types) {
  if (kind == CollectiveKind::allpermute) return permutations(type, types);
  std::vector<Collective> steps = single_axis_collectives(type);
  std::erase_if(steps, [&](const Collective& step) { return kind_of(step) != kind; });
  return steps;
}

// Shapes with room for every cut, and shapes in which some dimensions run out.
std::vector<Shape> shapes_for(const Mesh& mesh) {
  const std::int64_t devices = mesh.device_count();
  return {{devices, devices}, {devices, 2 * devices}, {12, 2}, {4, 6, 2}};
}

// Checks every pair that the case holds of; returns how many there were.
std::int64_t check_case(const Case& expected, std::int64_t most_devices = 12) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(most_devices)) {
    for (const Shape& shape : shapes_for(mesh)) {
      const std::vector<DistributedType> types = all_prime_types(mesh, shape);
      for (const DistributedType& start : types) {
        for (const Collective& first : steps_of_kind(start, expected.first, types)) {
          for (const Collective& second : steps_of_kind(type_after(start, first), expected.second, types)) {
            const Pair pair{start, first, second};
            if (!expected.holds(pair)) continue;
            check_pair(pair, expected);
            ++count;
          }
        }
      }
    }
  }
  return count;
}

constexpr auto gather = CollectiveKind::allgather;
constexpr auto slice = CollectiveKind::dynslice;
constexpr auto move = CollectiveKind::alltoall;
constexpr auto permute = CollectiveKind::allpermute;

TEST(Section4, lem_peak_case_1) {
  const auto holds = [](const Pair& pair) { return same_dimension(pair) && same_axis(pair); };
  EXPECT_GT(check_case({gather, slice, holds, "lem:peak, case 1 (i = j, x = y)", ""}), 500);
}

TEST(Section4, lem_peak_case_2_m_equals_n) {
  const auto holds = [](const Pair& pair) { return same_dimension(pair) && !same_axis(pair) && same_size(pair); };
  EXPECT_GT(check_case({gather, slice, holds, "lem:peak, case 2 (i = j, x != y, m = n)", "p"}), 300);
}

TEST(Section4, lem_peak_case_2_m_differs_from_n) {
  const auto holds = [](const Pair& pair) { return same_dimension(pair) && !same_size(pair); };
  EXPECT_GT(check_case({gather, slice, holds, "lem:peak, case 2 (i = j, x != y, m != n)", "spg"}), 200);
}

TEST(Section4, lem_peak_case_3) {
  const auto holds = [](const Pair& pair) { return !same_dimension(pair) && same_axis(pair); };
  EXPECT_GT(check_case({gather, slice, holds, "lem:peak, case 3 (i != j, x = y)", "a"}), 500);
}

TEST(Section4, lem_peak_case_4) {
  const auto holds = [](const Pair& pair) { return !same_dimension(pair) && !same_axis(pair); };
  EXPECT_GT(check_case({gather, slice, holds, "lem:peak, case 4 (i != j, x != y)", "sg"}), 500);
}

// Rising: allgather(i) and alltoall(k, l). Falling: alltoall(k, l) and dynslice(j).
bool is_from(const Collective& step, int dimension) { return std::get<AllToAll>(step).from == dimension; }
bool is_to(const Collective& step, int dimension) { return std::get<AllToAll>(step).to == dimension; }

TEST(Section4, lem_edges_rising_case_1) {
  const auto holds = [](const Pair& pair) { return is_from(pair.second, dimension_of(pair.first)); };
  EXPECT_GT(check_case({gather, move, holds, "lem:edges, rising, case 1 (i = k)", "pag"}), 300);
}

TEST(Section4, lem_edges_rising_case_2_m_equals_n) {
  const auto holds = [](const Pair& pair) { return is_to(pair.second, dimension_of(pair.first)) && same_size(pair); };
  EXPECT_GT(check_case({gather, move, holds, "lem:edges, rising, case 2 (i = l, m = n)", "pg"}), 300);
}

TEST(Section4, lem_edges_rising_case_2_m_differs_from_n) {
  const auto holds = [](const Pair& pair) { return is_to(pair.second, dimension_of(pair.first)) && !same_size(pair); };
  EXPECT_GT(check_case({gather, move, holds, "lem:edges, rising, case 2 (i = l, m != n)", "apg"}), 200);
}

TEST(Section4, lem_edges_rising_case_3) {
  const auto holds = [](const Pair& pair) {
    const int i = dimension_of(pair.first);
    return !is_from(pair.second, i) && !is_to(pair.second, i);
  };
  EXPECT_GT(check_case({gather, move, holds, "lem:edges, rising, case 3 (i != k, i != l)", "ag"}), 100);
}

TEST(Section4, lem_edges_rising_allpermute) {
  const auto holds = [](const Pair&) { return true; };
  EXPECT_GT(check_case({gather, permute, holds, "lem:edges, rising, allpermute", "pg"}), 5000);
}

TEST(Section4, lem_edges_falling_case_1) {
  const auto holds = [](const Pair& pair) { return is_to(pair.first, dimension_of(pair.second)); };
  EXPECT_GT(check_case({move, slice, holds, "lem:edges, falling, case 1 (j = l)", "sap"}), 300);
}

TEST(Section4, lem_edges_falling_case_2_m_equals_n) {
  const auto holds = [](const Pair& pair) { return is_from(pair.first, dimension_of(pair.second)) && same_size(pair); };
  EXPECT_GT(check_case({move, slice, holds, "lem:edges, falling, case 2 (j = k, m = n)", "sp"}), 300);
}

TEST(Section4, lem_edges_falling_case_2_m_differs_from_n) {
  const auto holds = [](const Pair& pair) {
    return is_from(pair.first, dimension_of(pair.second)) && !same_size(pair);
  };
  EXPECT_GT(check_case({move, slice, holds, "lem:edges, falling, case 2 (j = k, m != n)", "spa"}), 200);
}

TEST(Section4, lem_edges_falling_case_3) {
  const auto holds = [](const Pair& pair) {
    const int j = dimension_of(pair.second);
    return !is_from(pair.first, j) && !is_to(pair.first, j);
  };
  EXPECT_GT(check_case({move, slice, holds, "lem:edges, falling, case 3 (j != k, j != l)", "sa"}), 100);
}

TEST(Section4, lem_edges_falling_allpermute) {
  const auto holds = [](const Pair&) { return true; };
  EXPECT_GT(check_case({permute, slice, holds, "lem:edges, falling, allpermute", "sp"}), 5000);
}

// Pairs in order are no peaks and no edges, and stay.
TEST(Section4, lem_peak_and_lem_edges_leave_other_pairs_alone) {
  std::int64_t count = 0;
  for (const Mesh& mesh : prime_meshes(8)) {
    const std::vector<DistributedType> types = all_prime_types(mesh, divisible_shape(mesh, 2));
    for (const DistributedType& type : types) {
      for_each_sequence(Sequence(type), 2, single_axis_collectives, [&](const Sequence& sequence) {
        if (sequence.size() < 2 || !is_normal_form(sequence)) return;
        normalize(sequence, [&](const Rewriting& rewriting) {
          ASSERT_EQ(rewriting.rule.find("lem:"), std::string::npos) << to_string(sequence);
        });
        ++count;
      });
    }
  }
  EXPECT_GT(count, 500);
}

// --- thm:normal-form.

void check_normal_form_theorem(const Sequence& sequence) {
  const Trace normalization = trace_normalization(sequence);
  for (const TracedRewriting& traced : normalization.rewritings) {
    ASSERT_TRUE(same_placement(traced.result.source(), sequence.source()));
    ASSERT_TRUE(same_placement(traced.result.target(), sequence.target()));
  }
  const Sequence& result = normalization.result();
  ASSERT_TRUE(is_normal_form(result)) << to_string(sequence);
  ASSERT_TRUE(between_ends(result)) << to_string(sequence);
  ASSERT_TRUE(same_boxes(Placement(result.source()), Placement(sequence.source()))) << to_string(sequence);
  ASSERT_TRUE(same_boxes(Placement(result.target()), Placement(sequence.target()))) << to_string(sequence);
}

enum class Axes { single, several };

std::int64_t check_all_sequences(const Mesh& mesh, const Shape& shape, int longest, Axes axes) {
  const std::vector<DistributedType> types = all_prime_types(mesh, shape);
  const StepsOfType steps = [&](const DistributedType& type) {
    std::vector<Collective> all = axes == Axes::single ? single_axis_collectives(type) : multi_axis_collectives(type);
    for (const Collective& permutation : permutations(type, types)) all.push_back(permutation);
    return all;
  };
  std::int64_t count = 0;
  for (const DistributedType& type : types) {
    count += for_each_sequence(Sequence(type), longest, steps, check_normal_form_theorem);
  }
  return count;
}

TEST(Section4, thm_normal_form_all_sequences_of_four_steps) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(6)) count += check_all_sequences(mesh, {mesh.device_count(), 6}, 4, Axes::single);
  EXPECT_GT(count, 20000);
}

TEST(Section4, thm_normal_form_all_sequences_of_three_steps) {
  std::int64_t count = 0;
  for (const char* mesh : {"a=2,b=2,c=2", "a=2,b=3,c=2", "a=4,b=2", "a=12"}) {
    const std::int64_t devices = parse_mesh(mesh).device_count();
    count += check_all_sequences(parse_mesh(mesh), {devices, 4}, 3, Axes::single);
  }
  EXPECT_GT(count, 20000);
}

TEST(Section4, thm_normal_form_all_sequences_of_multi_axis_steps) {
  std::int64_t count = 0;
  for (const Mesh& mesh : all_meshes(8)) count += check_all_sequences(mesh, divisible_shape(mesh, 2), 2, Axes::several);
  EXPECT_GT(count, 20000);
}

TEST(Section4, thm_normal_form_random_sequences_of_twelve_steps) {
  EXPECT_TRUE(rc::check("any sequence has a normal form", [] {
    const Mesh mesh = *arbitrary_mesh();
    const DistributedType source = *arbitrary_type(mesh, divisible_shape(mesh, *rc::gen::inRange(1, 4)));
    for (int i = 0; i < 5; ++i) {
      const Sequence sequence = *arbitrary_sequence(source, 12);
      RC_LOG() << to_string(sequence);
      check_normal_form_theorem(sequence);
      RC_ASSERT(!testing::Test::HasFailure());
    }
  }));
}

// --- ex:extra-permutation.

constexpr const char* eq_nf_with_allpermutes = R"(mesh {a0: 2, a1: 2, a2: 2}
  [1{a0,a1,a2}8, 8]
  -> alltoall(0 -> 1) [2{a1,a2}8, 4{a0}8]
  -> allpermute     [2{a2,a1}8, 4{a0}8]
  -> alltoall(0 -> 1) [4{a1}8, 2{a2,a0}8]
  -> allpermute     [4{a1}8, 2{a0,a2}8]
  -> alltoall(0 -> 1) [8, 1{a1,a0,a2}8]
  -> allpermute     [8, 1{a0,a1,a2}8])";

TEST(Section4, ex_extra_permutation_one_alltoall_is_enough) {
  const Sequence sequence = sequence_of("mesh {a: 8} [1{a}8, 8] -> alltoall(0 -> 1) [8, 1{a}8]");
  EXPECT_TRUE(is_normal_form(sequence));
  EXPECT_TRUE(between_ends(sequence));
  EXPECT_EQ(cost(sequence), 8);
}

TEST(Section4, ex_extra_permutation_eq_nf_with_allpermutes) {
  const Sequence sequence = sequence_of(eq_nf_with_allpermutes);
  EXPECT_TRUE(is_normal_form(sequence));
  EXPECT_EQ(kinds(sequence), "apapap");
  EXPECT_EQ(height(sequence), 8);
  EXPECT_EQ(cost(sequence), 6 * 8);
}

// Rewriting the naive sequence does not find the single alltoall: it does not control the permutations it inserts.
TEST(Section4, ex_extra_permutation_rewriting_the_naive_sequence) {
  const Mesh mesh = parse_mesh("a0=2,a1=2,a2=2");
  const DistributedType source = parse_type("[1{a0,a1,a2}8, 8]", mesh);
  const DistributedType target = parse_type("[8, 1{a0,a1,a2}8]", mesh);
  const Sequence naive = gather_and_slice(source, target);
  EXPECT_EQ(height(naive), 64);
  const Sequence result = normalize(naive);
  EXPECT_TRUE(is_normal_form(result));
  EXPECT_EQ(height(result), 8);
  EXPECT_GT(cost(result), 8);
  EXPECT_LE(cost(result), cost(sequence_of(eq_nf_with_allpermutes)));
  EXPECT_EQ(result.target(), target);
}

}  // namespace
}  // namespace retile::test
