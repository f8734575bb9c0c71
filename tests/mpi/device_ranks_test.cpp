#include "retile/engines/mpi/device_ranks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "retile/base/error.h"
#include "retile/engines/mpi_options.h"
#include "tests/support/diagnostic_of.h"

namespace retile::mpi {
namespace {

using Devices = std::vector<Device>;

std::string error_of(std::int64_t devices, int ranks, const Devices& map) {
  try {
    DeviceRanks(devices, ranks, map);
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "";
}

TEST(DeviceRanks, are_blocks_unless_listed) {
  const DeviceRanks ranks(6, 3, {});
  EXPECT_EQ(ranks.devices_per_rank(), 2U);
  EXPECT_EQ(ranks.devices_of(0), (Devices{0, 1}));
  EXPECT_EQ(ranks.devices_of(2), (Devices{4, 5}));
  EXPECT_EQ(ranks.rank_of(3), 1);
  EXPECT_EQ(ranks.slot_of(3), 1U);
}

TEST(DeviceRanks, are_listed_rank_by_rank_and_ascend_on_each) {
  const DeviceRanks ranks(6, 3, {5, 0, 3, 1, 2, 4});
  EXPECT_EQ(ranks.devices_of(0), (Devices{0, 5}));
  EXPECT_EQ(ranks.devices_of(1), (Devices{1, 3}));
  EXPECT_EQ(ranks.devices_of(2), (Devices{2, 4}));
  EXPECT_EQ(ranks.slot_of(5), 1U);
  EXPECT_EQ(ranks.slot_of(2), 0U);
}

TEST(DeviceRanks, refuse_what_is_uneven) {
  EXPECT_EQ(error_of(8, 6, {}),
            "8 devices cannot be shared out evenly to 6 ranks: start a number of ranks that divides 8");
  EXPECT_EQ(error_of(1, 2, {}),
            "1 device cannot be shared out evenly to 2 ranks: start a number of ranks that divides 1");
}

TEST(DeviceRanks, refuse_lists_of_other_devices) {
  EXPECT_EQ(error_of(4, 2, {0, 1, 2}), "the device map lists 3 devices, and the mesh has 4");
  const std::string not_once = "the device map does not list every device from 0 to 3 once: look at its device ";
  EXPECT_EQ(error_of(4, 2, {0, 1, 2, 2}), not_once + "2");
  EXPECT_EQ(error_of(4, 2, {0, 1, 2, 4}), not_once + "4");
  EXPECT_EQ(error_of(4, 2, {-1, 1, 2, 3}), not_once + "-1");
}

TEST(DeviceMapText, is_row_major_or_a_list) {
  EXPECT_EQ(parse_device_map({"map", "row-major"}), Devices());
  EXPECT_EQ(parse_device_map({"map", "0"}), Devices{0});
  EXPECT_EQ(parse_device_map({"map", " 3, 1,2 ,0"}), (Devices{3, 1, 2, 0}));
}

TEST(DeviceMapText, gets_a_caret_where_it_is_wrong) {
  const auto diagnosed = [](const char* text) {
    return test::diagnostic_of([&] { return parse_device_map({"map", text}); });
  };
  EXPECT_EQ(diagnosed("column-major"),
            "map:1:1: error: unknown device map\n"
            "    1 | column-major\n"
            "      | ^~~~~~\n"
            "hint: use row-major, or list the devices rank by rank: 0,2,1,3\n");
  EXPECT_EQ(diagnosed("0,,1"),
            "map:1:3: error: expected a device, found ','\n"
            "    1 | 0,,1\n"
            "      |   ^\n");
  EXPECT_EQ(diagnosed("0 1"),
            "map:1:3: error: expected the end of the device map, or ',' and another device, found '1'\n"
            "    1 | 0 1\n"
            "      |   ^\n");
}

}  // namespace
}  // namespace retile::mpi
