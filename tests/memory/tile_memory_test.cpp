#include "retile/memory/tile_memory.h"

#include <gtest/gtest.h>

#include <utility>

#include "retile/base/error.h"

namespace retile {
namespace {

TEST(TileMemory, counts_what_is_alive_on_each_device) {
  TileMemory memory(2);
  EXPECT_EQ(memory.peak(), 0);
  CountedBuffer first = memory.allocate(0, 100);
  EXPECT_EQ(first.size(), 100);
  CountedBuffer second = memory.allocate(1, 150);
  EXPECT_EQ(memory.peak(), 150) << "of one device, not of both";
  first = CountedBuffer();
  CountedBuffer third = memory.allocate(0, 60);
  EXPECT_EQ(memory.peak(), 150) << "what was freed does not count";
  CountedBuffer fourth = memory.allocate(0, 100);
  EXPECT_EQ(memory.peak(), 160);
}

TEST(TileMemory, counts_a_buffer_once_however_it_is_moved) {
  TileMemory memory(1);
  CountedBuffer first = memory.allocate(0, 10);
  CountedBuffer second = std::move(first);
  CountedBuffer third;
  third = std::move(second);
  third = memory.allocate(0, 20);  // the old one goes when the new one is there
  EXPECT_EQ(memory.peak(), 30);
  third = CountedBuffer();
  (void)memory.allocate(0, 30);
  EXPECT_EQ(memory.peak(), 30);
}

TEST(TileMemory, counts_what_it_is_given_until_it_is_released) {
  TileMemory memory(1);
  memory.add(0, 5);
  CountedBuffer given = memory.adopt(0, Buffer(7));
  const std::byte* data = given.data();
  EXPECT_EQ(memory.peak(), 12);
  const Buffer released = given.release();
  EXPECT_EQ(released.data(), data);
  EXPECT_EQ(released.size(), 7U);
  EXPECT_TRUE(given.empty());
  (void)memory.allocate(0, 7);
  EXPECT_EQ(memory.peak(), 12);
}

TEST(TileMemory, keeps_to_its_limit) {
  TileMemory memory(2, 100);
  const CountedBuffer first = memory.allocate(0, 60);
  const CountedBuffer other = memory.allocate(1, 100);
  try {
    memory.allocate(0, 41);
    FAIL();
  } catch (const RuntimeError& error) {
    EXPECT_STREQ(error.what(), "no memory for a tile of 41 bytes on device 0: it holds 60 and may hold 100");
  }
  EXPECT_EQ(memory.allocate(0, 40).size(), 40);
}

}  // namespace
}  // namespace retile
