#include "retile/transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <numeric>

#include "retile/base/error.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/error_of.h"
#include "tests/support/problems.h"

namespace retile::transfer {
namespace {

using test::error_of;

// Two devices: each has four rows of an 8 x 6 array and wants three columns; of a vector, half and wants all.
class OwnBuffers : public ::testing::Test {
 protected:
  OwnBuffers() {
    for (std::size_t device = 0; device < 2; ++device) {
      rows_[device].resize(24);
      std::iota(rows_[device].begin(), rows_[device].end(), 24.0F * static_cast<float>(device));
      halves_[device] = {10.0F + static_cast<float>(device)};
      columns_[device].resize(24);
      wholes_[device].resize(2);
    }
  }

  static std::vector<TransferArray> arrays() {
    return {{"w", test::problem_of("a=2", "[4{a}8, 6]", "[8, 3{a}6]")},
            {"b", test::problem_of("a=2", "[1{a}2]", "[2]")}};
  }

  static std::vector<std::span<const std::byte>> sources(const std::vector<float> (&tiles)[2]) {
    return {std::as_bytes(std::span(tiles[0])), std::as_bytes(std::span(tiles[1]))};
  }
  static std::vector<std::span<std::byte>> targets(std::vector<float> (&tiles)[2]) {
    return {std::as_writable_bytes(std::span(tiles[0])), std::as_writable_bytes(std::span(tiles[1]))};
  }

  std::vector<ArrayMemory> memory() {
    return {{"b", sources(halves_), targets(wholes_)}, {"w", sources(rows_), targets(columns_)}};
  }

  std::string refusal(const std::vector<ArrayMemory>& memory) {
    try {
      Transfer(arrays()).run(memory);
    } catch (const RuntimeError& error) {
      return error.what();
    }
    return "";
  }

  std::vector<float> rows_[2];
  std::vector<float> halves_[2];
  std::vector<float> columns_[2];
  std::vector<float> wholes_[2];
};

TEST_F(OwnBuffers, are_moved_as_often_as_asked) {
  Transfer transfer(arrays(), {.max_bytes = 100});
  EXPECT_EQ(transfer.devices(), (std::vector<Device>{0, 1}));
  for (int i = 0; i < 3; ++i) {
    rows_[1][0] = static_cast<float>(100 + i);
    if (i % 2 == 0) {
      transfer.run(memory());
    } else {
      transfer.start(memory());
      while (!transfer.test()) continue;
    }
    EXPECT_EQ(transfer.statistics().received_max, 12 * 4 + 4);
    EXPECT_EQ(columns_[0][12], static_cast<float>(100 + i));
    EXPECT_EQ(columns_[1][0], 3);
    EXPECT_EQ(wholes_[0], (std::vector<float>{10, 11}));
    EXPECT_EQ(wholes_[1], (std::vector<float>{10, 11}));
  }
}

TEST_F(OwnBuffers, are_moved_on_a_machine_of_as_many_devices) {
  TransferOptions options;
  options.machine.emplace();
  options.machine->hosts = {{0, 1}};
  options.machine->inside_rate = 1e9;
  Transfer(arrays(), options).run(memory());
  EXPECT_EQ(columns_[1][0], 3);
  options.machine->hosts = {{0, 1, 2}};
  EXPECT_EQ(test::diagnostic_of([&] { Transfer(arrays(), options); }),
            "error: the machine has 3 devices, and the problem 2\n");
}

TEST_F(OwnBuffers, may_have_halos_and_lie_columns_first) {
  std::vector<TransferArray> described = arrays();
  // Rows within 6 x 8, columns first in the target.
  described[0].sources = {layout_within({6, 8}, {1, 1}, 4)};
  described[0].targets = {layout_within({8, 3}, {0, 0}, 4, MemoryOrder::column_major)};
  std::vector<float> padded[2] = {std::vector<float>(48, -1), std::vector<float>(48, -1)};
  for (std::size_t device = 0; device < 2; ++device) {
    for (std::size_t i = 0; i < 24; ++i) padded[device][(i / 6 + 1) * 8 + i % 6 + 1] = rows_[device][i];
  }
  Transfer(described).run(
      std::vector<ArrayMemory>{{"w", sources(padded), targets(columns_)}, {"b", sources(halves_), targets(wholes_)}});
  for (std::size_t device = 0; device < 2; ++device) {
    for (std::size_t row = 0; row < 8; ++row) {
      for (std::size_t column = 0; column < 3; ++column) {
        EXPECT_EQ(columns_[device][column * 8 + row], static_cast<float>(row * 6 + device * 3 + column));
      }
    }
  }
}

TEST_F(OwnBuffers, that_do_not_fit_are_refused_by_name) {
  std::vector<ArrayMemory> wrong = memory();
  wrong.pop_back();
  EXPECT_EQ(refusal(wrong), "array \"w\" is not given");
  wrong = memory();
  wrong.push_back(wrong.front());
  EXPECT_EQ(refusal(wrong), "array \"b\" is given twice");
  wrong = memory();
  wrong[0].name = "c";
  EXPECT_EQ(refusal(wrong), "no array is called \"c\"; array \"b\" is not given");
  wrong = memory();
  wrong[1].targets.pop_back();
  EXPECT_EQ(refusal(wrong), "array \"w\" has 2 sources and 1 target for 2 devices");
  wrong = memory();
  wrong[1].targets[1] = wrong[1].targets[1].first(95);
  EXPECT_EQ(refusal(wrong), "the target of \"w\" on device 1 has 95 bytes of memory, and its tile takes 96");
  wrong = memory();
  wrong[0].targets[0] = wrong[1].targets[1];
  EXPECT_THAT(refusal(wrong), ::testing::AllOf(::testing::HasSubstr("the target of \"w\" on device 1"),
                                               ::testing::HasSubstr(" overlaps ")));
}

TEST_F(OwnBuffers, that_are_null_are_refused) {
  std::vector<ArrayMemory> wrong = memory();
  wrong[1].targets[1] = {static_cast<std::byte*>(nullptr), 96};
  EXPECT_EQ(refusal(wrong), "the target of \"w\" on device 1 is null, and its tile takes 96 bytes");
  wrong = memory();
  wrong[0].sources[0] = {static_cast<const std::byte*>(nullptr), 4};
  EXPECT_EQ(refusal(wrong), "the source of \"b\" on device 0 is null, and its tile takes 4 bytes");
}

TEST_F(OwnBuffers, without_elements_may_be_null) {
  Transfer transfer({{"e", test::problem_of("a=2", "[0{a}0]", "[0]")}, {"b", arrays()[1].problem}});
  transfer.run(std::vector<ArrayMemory>{{"e", {{}, {}}, {{}, {}}}, {"b", sources(halves_), targets(wholes_)}});
  EXPECT_EQ(wholes_[1], (std::vector<float>{10, 11}));
}

TEST_F(OwnBuffers, are_refused_with_all_that_is_wrong) {
  std::vector<ArrayMemory> wrong = memory();
  wrong[0].name = "c";
  wrong.push_back(wrong[1]);
  wrong.back().sources[0] = wrong.back().sources[0].first(1);
  wrong.back().targets[1] = wrong.back().targets[0];
  EXPECT_EQ(refusal(wrong),
            "no array is called \"c\"; array \"w\" is given twice; array \"b\" is not given; "
            "the source of \"w\" on device 0 has 1 byte of memory, and its tile takes 96; "
            "the target of \"w\" on device 1 overlaps the target of \"w\" on device 0");
}

TEST_F(OwnBuffers, are_counted_where_many_are_wrong) {
  std::vector<TransferArray> many;
  for (int i = 0; i < 23; ++i) many.push_back({std::to_string(i), arrays()[1].problem});
  Transfer transfer(many);
  const std::string said = error_of([&] { transfer.run({}); });
  EXPECT_TRUE(said.starts_with("array \"0\" is not given; array \"1\" is not given; ")) << said;
  EXPECT_TRUE(said.ends_with("; array \"19\" is not given; and 3 more")) << said;
}

TEST_F(OwnBuffers, with_layouts_that_lead_out_of_them_are_refused_by_name) {
  std::vector<TransferArray> described = arrays();
  described[0].sources = {MemoryLayout{-4, {}}};
  described[1].targets = std::vector<MemoryLayout>(3);
  EXPECT_EQ(error_of([&] { Transfer transfer(described); }),
            "array \"w\": device 0's tile of [0:4, 0:6] begins outside of its memory: its first element is at byte -4; "
            "array \"b\": there are layouts of 3 targets for 2 devices");
}

TEST_F(OwnBuffers, of_one_name_are_refused) {
  const Problem problem = arrays()[1].problem;
  EXPECT_EQ(test::diagnostic_of([&] {
              Transfer transfer({{"p", problem}, {"p", problem}, {"z", problem}, {"z", problem}, {"", problem}});
            }),
            "error: two arrays are called \"p\"; two arrays are called \"z\"; an array's name is empty\n");
}

TEST_F(OwnBuffers, under_a_cap_that_is_too_small_are_refused) {
  EXPECT_THROW(Transfer(arrays(), {.max_bytes = 3}), InputError);
}

// --- Blocks in turn.

// The matrix with element (i, j) = 100 i + j in a device's memory: columns first, each three elements longer than what
// the device has of it.
struct Columns {
  std::int64_t leading = 0;
  std::vector<float> elements;

  Columns(const Layout& layout, Device device) : leading(layout.local_shape(device)[0] + 3) {
    elements.assign(static_cast<std::size_t>(leading * layout.local_shape(device)[1]), -1);
  }

  MemoryLayout layout() const {
    const auto columns = static_cast<std::int64_t>(elements.size()) / leading;
    return layout_within({leading, columns}, {0, 0}, 4, MemoryOrder::column_major);
  }

  void fill(const Layout& layout, Device device, float more) {
    const std::int64_t columns = layout.local_shape(device)[1];
    for (const Part& part : layout.placement().parts(device)) {
      for (std::int64_t i = part.box.lo[0]; i < part.box.hi[0]; ++i) {
        for (std::int64_t j = part.box.lo[1]; j < part.box.hi[1]; ++j) {
          const std::int64_t place = place_of(part, {i, j});
          elements[static_cast<std::size_t>(place % columns * leading + place / columns)] =
              static_cast<float>(100 * i + j) + more;
        }
      }
    }
  }
};

TEST(Transfer, moves_matrices_of_blocks_in_turn_with_leading_dimensions_at_once) {
  const Mesh mesh = parse_mesh("p=2,q=2");
  const std::vector<Problem> problems{
      {"", parse_layout("[30 cyclic 4{p}, 20 cyclic 3{q}]", mesh),
       parse_layout("[30 cyclic 5{p}, 20 cyclic 2{q}]", mesh)},
      {"", parse_layout("[33 cyclic 2{p} from 1, 40 cyclic 3{q}]", mesh), parse_layout("[17{p}33, 20{q}40]", mesh)},
      {"", parse_layout("[16{p}32, 10{q}20]", mesh), parse_layout("[32 cyclic 2{p}, 10{q}20]", mesh)},
  };
  std::vector<TransferArray> arrays;
  std::vector<std::vector<Columns>> from(3);
  std::vector<std::vector<Columns>> to(3);
  std::vector<std::vector<Columns>> expected(3);
  for (std::size_t i = 0; i < problems.size(); ++i) {
    TransferArray& array = arrays.emplace_back(TransferArray{std::to_string(i), problems[i]});
    for (Device device = 0; device < 4; ++device) {
      from[i]
          .emplace_back(problems[i].source(), device)
          .fill(problems[i].source(), device, 0.5F * static_cast<float>(i));
      expected[i].emplace_back(problems[i].target(), device);
      to[i].push_back(expected[i].back());
      expected[i].back().fill(problems[i].target(), device, 0.5F * static_cast<float>(i));
      array.sources.push_back(from[i].back().layout());
      array.targets.push_back(to[i].back().layout());
    }
  }
  std::vector<ArrayMemory> memory;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    ArrayMemory& one = memory.emplace_back(ArrayMemory{arrays[i].name, {}, {}});
    for (Columns& tile : from[i]) one.sources.push_back(std::as_bytes(std::span(tile.elements)));
    for (Columns& tile : to[i]) one.targets.push_back(std::as_writable_bytes(std::span(tile.elements)));
  }
  Transfer(arrays).run(memory);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    for (std::size_t device = 0; device < 4; ++device) {
      EXPECT_EQ(to[i][device].elements, expected[i][device].elements) << i << " on device " << device;
    }
  }
}

// --- Ghost zones.

TEST(Transfer, refreshes_ghost_zones_of_several_fields_in_place) {
  const Problem problem = test::problem_of("a=2", "[4{a}8 halo 1]", "[4{a}8 halo 1]");
  std::vector<float> fields[2][2] = {{{0, 1, 2, 3, -1}, {-1, 4, 5, 6, 7}},
                                     {{10, 11, 12, 13, -1}, {-1, 14, 15, 16, 17}}};
  std::vector<ArrayMemory> memory{{"u", {}, {}}, {"v", {}, {}}};
  for (std::size_t field = 0; field < 2; ++field) {
    for (std::vector<float>& tile : fields[field]) {
      memory[field].sources.push_back(std::as_bytes(std::span(tile)));
      memory[field].targets.push_back(std::as_writable_bytes(std::span(tile)));
    }
  }
  Transfer({{"u", problem}, {"v", problem}}).run(memory);
  EXPECT_EQ(fields[0][0], (std::vector<float>{0, 1, 2, 3, 4}));
  EXPECT_EQ(fields[0][1], (std::vector<float>{3, 4, 5, 6, 7}));
  EXPECT_EQ(fields[1][0], (std::vector<float>{10, 11, 12, 13, 14}));
  EXPECT_EQ(fields[1][1], (std::vector<float>{13, 14, 15, 16, 17}));
  memory[1].targets = memory[0].targets;
  EXPECT_NE(error_of([&] {
              Transfer({{"u", problem}, {"v", problem}}).run(memory);
            }).find(" overlaps "),
            std::string::npos);
}

// Sources that are read are given back to the system, and the insides of targets with them if they were one memory.
TEST(Transfer, refuses_to_give_away_what_it_refreshes) {
  const Problem problem = test::problem_of("a=2", "[1024{a}2048 halo 1]", "[1024{a}2048 halo 1]");
  std::vector<Buffer> tiles;
  ArrayMemory memory{"u", {}, {}};
  for (int device = 0; device < 2; ++device) {
    Buffer& tile = tiles.emplace_back(make_page_buffer(std::size_t{1025} * 4));
    memory.sources.emplace_back(tile.data(), tile.size());
    memory.targets.emplace_back(tile.data(), tile.size());
  }
  TransferOptions options;
  options.in_place = true;
  EXPECT_NE(error_of([&] {
              Transfer({{"u", problem}}, options).run(std::vector{memory});
            }).find(" overlaps "),
            std::string::npos);
}

// Rows to columns of 1024 x 1024 numbers on four devices.
class DonatedBuffers : public ::testing::Test {
 protected:
  static constexpr std::size_t tile_bytes = 1 << 20;

  static std::vector<TransferArray> arrays() {
    return {{"w", test::problem_of("a=4", "[256{a}1024, 1024]", "[1024, 256{a}1024]")}};
  }

  // In memory that begins so many bytes after a page.
  explicit DonatedBuffers(std::size_t shift = 0) {
    memory_.push_back({"w", {}, {}});
    for (int device = 0; device < 4; ++device) {
      buffers_.push_back(make_page_buffer(tile_bytes + shift));
      auto* numbers = reinterpret_cast<float*>(buffers_.back().data() + shift);
      std::iota(numbers, numbers + tile_bytes / 4, static_cast<float>(device) * tile_bytes / 4);
      memory_[0].sources.emplace_back(buffers_.back().data() + shift, tile_bytes);
    }
    for (int device = 0; device < 4; ++device) {
      buffers_.push_back(make_page_buffer(tile_bytes + shift));
      memory_[0].targets.emplace_back(buffers_.back().data() + shift, tile_bytes);
    }
  }

  void check_targets() const {
    for (std::size_t device = 0; device < 4; ++device) {
      const auto* numbers = reinterpret_cast<const float*>(memory_[0].targets[device].data());
      for (std::size_t i = 0; i < tile_bytes / 4; ++i) {
        ASSERT_EQ(numbers[i], static_cast<float>(i / 256 * 1024 + device * 256 + i % 256)) << device << " " << i;
      }
    }
  }

  std::int64_t resident_bytes(std::size_t first, std::size_t end) const {
    std::int64_t bytes = 0;
    for (std::size_t i = first; i < end; ++i) {
      std::vector<unsigned char> states((buffers_[i].size() + 4095) / 4096);
      EXPECT_EQ(mincore(const_cast<std::byte*>(buffers_[i].data()), buffers_[i].size(), states.data()), 0);
      for (const unsigned char state : states) bytes += (state & 1U) * 4096;
    }
    return bytes;
  }

  std::vector<Buffer> buffers_;  // of sources, then of targets
  std::vector<ArrayMemory> memory_;
};

class DonatedBuffersBesidePages : public DonatedBuffers {
 protected:
  DonatedBuffersBesidePages() : DonatedBuffers(48) {}
};

TEST_F(DonatedBuffers, are_gone_when_the_targets_are_there) {
  Transfer transfer(arrays(), {.max_bytes = 64 << 10, .in_place = true});
  transfer.run(memory_);
  EXPECT_EQ(resident_bytes(0, 4), 0);
  EXPECT_EQ(resident_bytes(4, 8), 4 << 20);
  check_targets();
}

TEST_F(DonatedBuffersBesidePages, keep_their_first_and_last_page) {
  Transfer(arrays(), {.max_bytes = 64 << 10, .in_place = true}).run(memory_);
  EXPECT_EQ(resident_bytes(0, 4), 4 * 2 * 4096);
  check_targets();
}

TEST_F(DonatedBuffers, are_kept_where_sources_are_not_donated) {
  Transfer(arrays(), {.max_bytes = 64 << 10}).run(memory_);
  EXPECT_EQ(resident_bytes(0, 8), 8 << 20);
  check_targets();
}

TEST_F(DonatedBuffers, are_refused_where_the_shapes_need_more) {
  const Problem problem = test::problem_of("a=2,b=2,c=2", "[250000{a,b}1000000]", "[250000{b,c}1000000]");
  for (const std::int64_t cap : {3, 4096}) {
    try {
      Transfer({{"w", problem}}, {.max_bytes = cap, .in_place = true});
      FAIL();
    } catch (const InputError& error) {
      EXPECT_EQ(error.diagnostic().hint, "the smallest cap that works in place is 262,144 bytes");
    }
  }
  Transfer({{"w", problem}}, {.max_bytes = 262144, .in_place = true});
}

TEST_F(DonatedBuffers, are_refused_with_something_between_their_elements) {
  std::vector<TransferArray> described = arrays();
  described[0].targets = {layout_within({1024, 300}, {0, 0}, 4)};
  EXPECT_EQ(error_of([&] { Transfer(described, {.in_place = true}); }),
            "array \"w\" has layouts of memory: in place, tiles are packed");
}

}  // namespace
}  // namespace retile::transfer
