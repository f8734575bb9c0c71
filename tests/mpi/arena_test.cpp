#include "retile/engines/mpi/arena.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "retile/base/error.h"

namespace retile::mpi {
namespace {

constexpr std::size_t mebibyte = 1 << 20;
constexpr std::uint64_t cookie = 0x1234;

std::shared_ptr<Arena> make_arena() {
  std::shared_ptr<Arena> arena = Arena::make(64 * mebibyte, cookie);
  if (arena == nullptr) throw std::runtime_error("this system has no memory without a file");
  return arena;
}

// What the system has given to the arena.
std::size_t memory_of(const Arena& arena) {
  struct stat status {};
  fstat(arena.descriptor(), &status);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Arena, gives_memory_back_to_the_system_when_a_buffer_goes) {
  const auto arena = make_arena();
  Buffer buffer = Arena::allocate(arena, 8 * mebibyte);
  std::memset(buffer.data(), 1, buffer.size());
  EXPECT_GE(memory_of(*arena), 8 * mebibyte);
  buffer = Buffer();
  EXPECT_LT(memory_of(*arena), mebibyte);
}

TEST(Arena, is_seen_by_whoever_opens_it) {
  const auto arena = make_arena();
  const auto other = Arena::open(getpid(), arena->descriptor(), 64 * mebibyte, cookie);
  ASSERT_NE(other, nullptr);
  Buffer buffer = Arena::allocate(arena, 100);
  std::memset(buffer.data(), 7, buffer.size());
  const std::byte* seen = other->at(*arena->offset_of(buffer.data()));
  EXPECT_NE(seen, buffer.data());
  EXPECT_EQ(std::memcmp(seen, buffer.data(), buffer.size()), 0);
}

TEST(Arena, is_not_taken_for_another) {
  const auto arena = make_arena();
  EXPECT_EQ(Arena::open(getpid(), arena->descriptor(), 64 * mebibyte, cookie + 1), nullptr);
  EXPECT_EQ(Arena::open(getpid(), arena->descriptor(), 32 * mebibyte, cookie), nullptr);
  EXPECT_EQ(Arena::open(getpid(), -1, 64 * mebibyte, cookie), nullptr);
}

TEST(Arena, buffers_do_not_overlap_and_holes_are_used_again) {
  const auto arena = make_arena();
  Buffer first = Arena::allocate(arena, 3 * mebibyte);
  Buffer second = Arena::allocate(arena, 5);
  Buffer third = Arena::allocate(arena, 3 * mebibyte);
  EXPECT_GE(second.data(), first.end());
  EXPECT_GE(third.data(), second.end());
  const std::byte* start = first.data();
  first = Buffer();
  second = Buffer();
  third = Buffer();
  const Buffer again = Arena::allocate(arena, 60 * mebibyte);  // fits only where the holes became one
  EXPECT_EQ(again.data(), start);
}

TEST(Arena, holes_join_in_whatever_order_buffers_go) {
  const auto arena = make_arena();
  for (const auto& order : {std::array{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 3; ++i) buffers.push_back(Arena::allocate(arena, mebibyte));
    for (const int i : order) buffers[static_cast<std::size_t>(i)] = Buffer();
    EXPECT_NO_THROW(Arena::allocate(arena, 60 * mebibyte));
  }
}

TEST(Arena, says_when_it_is_full) {
  const auto arena = make_arena();
  const Buffer most = Arena::allocate(arena, 60 * mebibyte);
  EXPECT_THROW(Arena::allocate(arena, 8 * mebibyte), RuntimeError);
  EXPECT_THROW(Arena::allocate(arena, SIZE_MAX), RuntimeError);
}

TEST(Arena, lives_as_long_as_its_buffers) {
  auto arena = make_arena();
  Buffer buffer = Arena::allocate(arena, mebibyte);
  arena.reset();
  std::memset(buffer.data(), 1, buffer.size());
  EXPECT_EQ(buffer[mebibyte - 1], std::byte{1});
}

TEST(Arena, knows_its_addresses) {
  const auto arena = make_arena();
  const Buffer buffer = Arena::allocate(arena, 10);
  EXPECT_EQ(arena->at(*arena->offset_of(buffer.data() + 9)), buffer.data() + 9);
  const std::byte elsewhere{};
  EXPECT_EQ(arena->offset_of(&elsewhere), std::nullopt);
}

}  // namespace
}  // namespace retile::mpi
