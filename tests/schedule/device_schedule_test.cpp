#include "retile/schedule/device_schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "retile/planner/planner.h"
#include "retile/planner/problem.h"
#include "retile/types/text.h"

namespace retile {
namespace {

using Memory = std::vector<std::int64_t>;  // a tile's elements
constexpr std::int64_t element_size = sizeof(std::int64_t);

Plan plan_of(const std::string& source, const std::string& target, PlannerKind planner) {
  PlanOptions options;
  options.planner = planner;
  return make_plan(parse_problem({"mesh", "x=2,y=4"}, {"source", source}, {"target", target}), options);
}

// Visits the places of a region's elements, row-major.
template <typename Visit>
void visit(const Region& region, const Visit& at, std::size_t dimension = 0, std::int64_t offset = 0) {
  if (dimension == region.shape.size()) {
    at(static_cast<std::size_t>((region.offset + offset) / element_size));
    return;
  }
  for (std::int64_t i = 0; i < region.shape[dimension]; ++i) {
    visit(region, at, dimension + 1, offset + i * region.strides[dimension]);
  }
}

// The elements of the array that a device holds, numbered row-major.
Memory held(const Placement& placement, Device device) {
  Memory memory(static_cast<std::size_t>(placement.size(device)));
  for (const Part& part : placement.parts(device)) {
    Region region{part.offset * element_size, {}, part.strides};
    for (std::size_t i = 0; i < part.box.lo.size(); ++i) region.shape.push_back(part.box.hi[i] - part.box.lo[i]);
    for (std::int64_t& stride : region.strides) stride *= element_size;
    std::vector<std::int64_t> numbers{0};
    for (std::size_t i = 0; i < part.box.lo.size(); ++i) {
      std::vector<std::int64_t> longer;
      for (const std::int64_t number : numbers) {
        for (std::int64_t at = part.box.lo[i]; at < part.box.hi[i]; ++at) {
          longer.push_back(number * placement.global_shape()[i] + at);
        }
      }
      numbers = std::move(longer);
    }
    auto next = numbers.begin();
    visit(region, [&](std::size_t place) { memory[place] = *next++; });
  }
  return memory;
}

// What all devices hold after their stages, messages handed over from mailbox to mailbox.
std::vector<Memory> run(const Plan& plan, std::int64_t message_bytes) {
  const auto devices = static_cast<std::size_t>(plan.device_count());
  std::vector<std::vector<DeviceStage>> schedules;
  std::vector<Memory> memories;
  for (std::size_t device = 0; device < devices; ++device) {
    schedules.push_back(device_schedule(plan, static_cast<Device>(device), {element_size, message_bytes, {}, {}}));
    memories.push_back(held(plan.movement.source, static_cast<Device>(device)));
  }
  for (std::size_t number = 0; number < schedules.front().size(); ++number) {
    std::map<std::pair<Device, Device>, Memory> mailboxes;
    std::vector<Memory> results(devices);
    for (std::size_t device = 0; device < devices; ++device) {
      const DeviceStage& stage = schedules[device][number];
      results[device].assign(static_cast<std::size_t>(stage.elements), -1);
      for (const RegionCopy& copy : stage.copies) {
        Memory moved;
        visit(copy.from, [&](std::size_t place) { moved.push_back(memories[device].at(place)); });
        auto next = moved.begin();
        visit(copy.to, [&](std::size_t place) { results[device].at(place) = *next++; });
      }
      for (const MessageRound& round : stage.rounds) {
        if (!round.send) continue;
        Memory& mailbox = mailboxes[{static_cast<Device>(device), round.send->peer}];
        for (const Region& region : round.send->regions) {
          visit(region, [&](std::size_t place) { mailbox.push_back(memories[device].at(place)); });
        }
        EXPECT_LE(round.send->bytes, message_bytes);
      }
    }
    for (std::size_t device = 0; device < devices; ++device) {
      for (const MessageRound& round : schedules[device][number].rounds) {
        if (!round.receive) continue;
        Memory& mailbox = mailboxes[{round.receive->peer, static_cast<Device>(device)}];
        auto next = mailbox.begin();
        for (const Region& region : round.receive->regions) {
          visit(region, [&](std::size_t place) { results[device].at(place) = *next++; });
        }
        mailbox.erase(mailbox.begin(), next);
      }
    }
    for (const auto& [ends, mailbox] : mailboxes) EXPECT_TRUE(mailbox.empty());
    memories = std::move(results);
  }
  return memories;
}

TEST(DeviceSchedule, moves_what_the_plan_moves) {
  const std::vector<std::pair<std::string, std::string>> problems{{"[4{y,x}32, 8]", "[16{x}32, 2{y}8]"},
                                                                  {"[5{x}9, 8]", "[9, 1{y,x}8]"},
                                                                  {"[3{y}9, 7] nested", "[9, 2{y}7] balanced"},
                                                                  {"[2*4{y}16, 8]", "[4*4{x}8, 8]"},
                                                                  {"[3*1{x}2]", "[3{x}6]"},  // several boxes
                                                                  {"[3{x}6]", "[3*1{x}2]"},
                                                                  {"[8{x}16, 8]", "[8{x}16, 8]"}};
  for (const auto& [source, target] : problems) {
    for (const PlannerKind planner : {PlannerKind::wide, PlannerKind::direct}) {
      const Plan plan = plan_of(source, target, planner);
      const std::vector<Memory> memories = run(plan, 64);
      for (Device device = 0; device < plan.device_count(); ++device) {
        EXPECT_EQ(memories[static_cast<std::size_t>(device)], held(plan.movement.target(), device))
            << source << " to " << target << ", device " << device;
      }
    }
  }
}

TEST(DeviceSchedule, lets_each_device_meet_one_peer_at_a_time) {
  const Plan plan = plan_of("[4{y,x}32, 8]", "[32, 1{y,x}8]", PlannerKind::direct);
  const std::vector<DeviceStage> stages = device_schedule(plan, 3, {element_size, 1024, {}, {}});
  ASSERT_EQ(stages.size(), 1U);
  const std::vector<Device> peers{5, 6, 7, 0, 1, 2, 4};
  ASSERT_EQ(stages[0].rounds.size(), peers.size());
  for (std::size_t i = 0; i < peers.size(); ++i) {
    EXPECT_EQ(stages[0].rounds[i].send->peer, peers[i]);
    EXPECT_EQ(stages[0].rounds[i].receive->peer, peers[i]);
  }
}

TEST(DeviceSchedule, swaps_both_ways_at_once_in_messages_of_about_one_length) {
  const Plan plan = plan_of("[17{x}34, 8]", "[34, 4{x}8]", PlannerKind::direct);
  const std::vector<DeviceStage> stages = device_schedule(plan, 0, {element_size, 8 * 4 * element_size, {}, {}});
  std::vector<std::int64_t> rows;
  for (const MessageRound& round : stages[0].rounds) {
    ASSERT_TRUE(round.send && round.receive);
    EXPECT_EQ(round.send->bytes, round.receive->bytes);
    rows.push_back(round.send->bytes / (4 * element_size));
  }
  EXPECT_EQ(rows, (std::vector<std::int64_t>{6, 6, 5}));
}

TEST(DeviceSchedule, finds_elements_where_arrays_have_them) {
  const Plan plan = plan_of("[16{x}32, 8]", "[32, 4{x}8]", PlannerKind::direct);
  const Strides columns_first{element_size, 100 * element_size};
  const std::vector<DeviceStage> stages = device_schedule(plan, 0, {element_size, 1U << 20U, columns_first, {}});
  EXPECT_EQ(stages[0].copies[0].from, (Region{0, {16, 4}, columns_first}));
  EXPECT_EQ(stages[0].copies[0].to, (Region{0, {16, 4}, {4 * element_size, element_size}}));
}

TEST(DeviceSchedule, says_where_parts_of_a_sum_are_added_up) {
  const Plan plan = plan_of("[32, 8] sum {x}", "[32, 2{y}8]", PlannerKind::direct);
  const std::vector<DeviceStage> stages = device_schedule(plan, 0, {4, 1024, {}, {}});
  ASSERT_EQ(stages.size(), 3U);
  ASSERT_TRUE(stages[1].reduction);
  EXPECT_EQ(stages[1].reduction->reduction, Reduction::sum);
  EXPECT_EQ(stages[1].elements, 32);
}

}  // namespace
}  // namespace retile
