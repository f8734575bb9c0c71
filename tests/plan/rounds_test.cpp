#include "retile/plan/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "retile/base/arithmetic.h"
#include "tests/support/layouts.h"

namespace retile {
namespace {

Problem between(const char* source_mesh, const char* source, const char* target_mesh, const char* target) {
  return test::problem_of({source_mesh, source, target_mesh, target});
}

std::optional<Rounds> partial_rounds(const Problem& problem) {
  const std::int64_t world = problem.device_count();
  return find_partial_rounds(problem.source().placement(world), problem.target().placement(world));
}

std::size_t at(Device device) { return static_cast<std::size_t>(device); }

Shape sum(Shape a, const Shape& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

// Carries rounds out on names of cells: corners in the array. By device, where each cell of its target tile comes from.
class Walk {
 public:
  explicit Walk(const Problem& problem)
      : before_(problem.source().placement(problem.device_count())),
        after_(problem.target().placement(problem.device_count())),
        received_(at(problem.device_count())) {}

  void take(const Round& round) {
    std::set<Device> senders;
    for (std::size_t device = 0; device < round.senders.size(); ++device) {
      const Device sender = round.senders[device];
      if (sender == nobody) continue;
      EXPECT_TRUE(senders.insert(sender).second) << "a device sends twice in a round";
      const Shape taken = sum(before_.box(sender).lo, round.taken_from[at(sender)]);
      const Shape written = sum(after_.box(static_cast<Device>(device)).lo, round.written_to[device]);
      EXPECT_EQ(taken, written);
      EXPECT_TRUE(received_[device].insert(written).second) << "a device receives a cell twice";
    }
  }

  // Whether every device has all cells of its target tile.
  void expect_complete(const Shape& cell) const {
    for (std::size_t device = 0; device < received_.size(); ++device) {
      const std::int64_t cells = after_.size(static_cast<Device>(device)) / product(cell);
      EXPECT_EQ(static_cast<std::int64_t>(received_[device].size()), cells) << "device " << device;
    }
  }

 private:
  Placement before_;
  Placement after_;
  std::vector<std::set<Shape>> received_;
};

void expect_right(const Problem& problem, std::size_t own, std::size_t exchanged) {
  const std::optional<Rounds> rounds = partial_rounds(problem);
  ASSERT_TRUE(rounds.has_value());
  EXPECT_EQ(rounds->own.size(), own);
  EXPECT_EQ(rounds->exchanged.size(), exchanged);
  Walk walk(problem);
  for (const Round& round : rounds->own) {
    walk.take(round);
    for (std::size_t device = 0; device < round.senders.size(); ++device) {
      EXPECT_TRUE(round.senders[device] == nobody || at(round.senders[device]) == device);
    }
  }
  for (const Round& round : rounds->exchanged) {
    walk.take(round);
    for (std::size_t device = 0; device < round.senders.size(); ++device) EXPECT_NE(at(round.senders[device]), device);
  }
  walk.expect_complete(rounds->cell);
}

TEST(PartialRounds, go_to_other_devices) {
  expect_right(between("x=4", "[4{x}16, 8]", "y=4", "[16, 2{y}8] on [4, 5, 6, 7]"), 0, 4);
}

TEST(PartialRounds, go_to_more_devices) {
  // Four devices hold two cells each and keep one; the other goes to a device that held nothing.
  expect_right(between("x=4", "[4{x}16]", "y=8", "[2{y}16]"), 1, 2);
}

TEST(PartialRounds, go_to_fewer_devices) {
  expect_right(between("x=8", "[2{x}16]", "y=2", "[8{y}16]"), 1, 4);
  // All that device 5 wants lies on it.
  expect_right(between("x=8", "[16]", "y=1", "[16] on [5]"), 1, 0);
}

TEST(PartialRounds, share_the_sending_among_holders) {
  // Two holders of each half, four devices that want it: two messages each.
  expect_right(between("x=2,r=2", "[8{x}16]", "y=2,r=4", "[8{y}16] on [4, 5, 6, 7, 8, 9, 10, 11]"), 0, 2);
}

TEST(PartialRounds, move_numbers) { expect_right(between("x=2", "[]", "y=2", "[] on [2, 3]"), 0, 1); }

TEST(PartialRounds, are_there_for_equal_tiles_alone) {
  EXPECT_FALSE(partial_rounds(between("x=2", "[9{x}17]", "y=2", "[17] on [2, 3]")).has_value());
  EXPECT_FALSE(partial_rounds(between("x=2", "[0{x}0]", "y=2", "[0] on [2, 3]")).has_value());
}

TEST(PartialRounds, are_right_between_scattered_layouts) {
  test::RandomProblems random(7);
  int found = 0;
  for (int i = 0; i < 400; ++i) {
    const Shape shape{24, 12};
    const Problem problem("", test::scattered_layout(random, shape, 9), test::scattered_layout(random, shape, 9));
    const std::optional<Rounds> rounds = partial_rounds(problem);
    if (!rounds) continue;
    ++found;
    Walk walk(problem);
    for (const auto* list : {&rounds->own, &rounds->exchanged}) {
      for (const Round& round : *list) walk.take(round);
    }
    walk.expect_complete(rounds->cell);
  }
  EXPECT_GT(found, 100);
}

TEST(Rounds, are_permutations_between_types) {
  const Problem problem = between("x=2,y=4", "[1{y,x}8, 8]", "x=2,y=4", "[2{y}8, 4{x}8]");
  const std::optional<Rounds> rounds = find_rounds(problem.source().placement(8), problem.target().placement(8));
  ASSERT_TRUE(rounds.has_value());
  Walk walk(problem);
  for (const auto* list : {&rounds->own, &rounds->exchanged}) {
    for (const Round& round : *list) {
      walk.take(round);
      EXPECT_EQ(std::count(round.senders.begin(), round.senders.end(), nobody), 0);
    }
  }
  walk.expect_complete(rounds->cell);
  EXPECT_FALSE(find_rounds(Problem(problem).source().placement(9), problem.target().placement(9)).has_value());
}

}  // namespace
}  // namespace retile
