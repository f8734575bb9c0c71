#include "retile/copies/host_read.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/error_of.h"

namespace retile {
namespace {

// Boxes of tiles with gaps of any length between rows, longer and shorter than those that are read along. The system
// reads this process as it would another one.
RC_GTEST_PROP(HostRead, reads_what_a_copy_copies, ()) {
  const Box box{{0, 0, 0}, {*rc::gen::inRange(1, 5), *rc::gen::inRange(1, 40), *rc::gen::inRange(1, 60)}};
  const auto padded = [&] {
    Box tile = box;
    tile.hi[1] += *rc::gen::element(0, 0, 1, 7);
    tile.hi[2] += *rc::gen::element(0, 0, 1, 30, 200, 2500);
    return tile;
  };
  const Box from = padded();
  const Box to = padded();
  const std::int64_t size = *rc::gen::element(1, 2, 4, 16);
  const BoxCopy copy(from, to, box, size);
  std::vector<std::byte> source(static_cast<std::size_t>(volume(from) * size));
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(1 + i % 251);
  std::vector<std::byte> expected(static_cast<std::size_t>(volume(to) * size));
  std::vector<std::byte> found = expected;
  copy.run(source.data(), expected.data());
  const std::int64_t middle = *rc::gen::inRange<std::int64_t>(0, copy.bytes() + 1);
  read_box(copy, getpid(), source.data(), found.data(), {middle, copy.bytes()});
  read_box(copy, getpid(), source.data(), found.data(), {0, middle});
  RC_ASSERT(found == expected);
}

TEST(HostRead, reads_more_rows_than_the_system_takes_at_once) {
  const Box box{{0, 0}, {5000, 8}};
  const BoxCopy copy(Box{{0, 0}, {5000, 4000}}, box, box, 1);
  std::vector<std::byte> source(5000 * 4000);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i % 253);
  std::vector<std::byte> expected(5000 * 8);
  std::vector<std::byte> found = expected;
  copy.run(source.data(), expected.data());
  read_box(copy, getpid(), source.data(), found.data(), {0, copy.bytes()});
  EXPECT_EQ(found, expected);
}

TEST(HostRead, tells_that_memory_or_processes_are_gone) {
  const Box box{{0}, {8192}};
  const BoxCopy copy(box, box, box, 1);
  std::vector<std::byte> target(8192);
  void* pages = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const auto* source = static_cast<const std::byte*>(pages);
  const auto read = [&](std::int64_t process) {
    return test::error_of([&] { read_box(copy, process, source, target.data(), {0, 8192}); });
  };
  EXPECT_EQ(read(getpid()), "");
  munmap(static_cast<std::byte*>(pages) + 4096, 4096);
  EXPECT_EQ(read(getpid()), "process_vm_readv: some memory is not there");
  munmap(pages, 4096);
  EXPECT_EQ(read(getpid()), "process_vm_readv: Bad address");
  EXPECT_EQ(read(INT32_MAX), "process_vm_readv: No such process");
}

}  // namespace
}  // namespace retile
