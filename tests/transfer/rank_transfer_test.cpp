#include "retile/transfer/rank_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include "retile/checking/made_array.h"
#include "retile/copies/convert.h"
#include "retile/copies/copy.h"
#include "retile/schedule/stream_plan.h"
#include "retile/transfer/claims.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/error_of.h"
#include "tests/support/manifests.h"

namespace retile::transfer {
namespace {

using test::error_of;

struct Model {
  std::vector<ArrayKind> kinds;
  std::vector<KindOfArray> arrays;
  std::int64_t ranks = 1;
};

Model model_of(const Manifest& manifest) {
  Model model;
  model.ranks = manifest.device_count();
  for (const Problem& problem : manifest.problems) {
    model.kinds.push_back(
        {problem.source().inside(model.ranks), problem.target().placement(model.ranks), problem.element_type()});
  }
  for (const NamedArray& array : manifest.arrays) model.arrays.push_back({array.name, array.problem});
  return model;
}

using Bytes = std::vector<std::byte>;

// All ranks of a transfer in one process, with tiles of made-up arrays that are packed.
class Ranks {
 public:
  // With `least_part` ranks read each other's memory, in parts that are at least so long on average; 0: they do not.
  Ranks(Model model, const MessageOptions& options, std::int64_t least_part = 0)
      : model_(std::move(model)), plan_(model_.kinds, model_.arrays, model_.ranks, options) {
    for (Device rank = 0; rank < model_.ranks; ++rank) {
      std::vector<TileMemory> memory;
      for (std::size_t array = 0; array < model_.arrays.size(); ++array) {
        const ArrayKind& kind = kind_of(array);
        Bytes& source = tiles_.emplace_back(bytes_in(kind.source, rank, array));
        make_parts(made(array), kind.source.parts(rank), source.data());
        memory.push_back({array, TransferSide::source, source.data(), {}, {}, {}});
        Bytes& target = tiles_.emplace_back(bytes_in(kind.target, rank, array));
        memory.push_back({array, TransferSide::target, target.data(), {}, {}, {}});
      }
      ReadableRanks readable;
      if (least_part > 0)
        readable = {std::vector<std::int64_t>(static_cast<std::size_t>(model_.ranks), getpid()), least_part};
      ranks_.emplace_back(plan_, rank, memory, std::make_shared<Staging>(), readable);
    }
    for (const std::int64_t round : {std::int64_t{0}, ranks_.front().first_passed_on()}) {
      for (Device from = 0; from < model_.ranks; ++from) {
        for (const Device reader : rank(from).readers(round)) rank(reader).set_lenders(round, {from});
      }
      if (ranks_.front().first_passed_on() == 0) break;
    }
  }

  // Every offer of a phase, and the first fault that is found with one.
  std::string exchange_offers(std::int64_t round, bool only_changed = false) {
    std::string fault;
    for (Device from = 0; from < model_.ranks; ++from) {
      for (const Message& offer : rank(from).make_offers(round, only_changed)) {
        for (const Message& awaited : rank(offer.peer).awaited_offers(round)) {
          if (awaited.peer == from) std::memcpy(awaited.bytes.data(), offer.bytes.data(), offer.bytes.size());
        }
        const std::string found = error_of([&] { rank(offer.peer).accept_offer(round, from); });
        if (fault.empty()) fault = found;
      }
    }
    return fault;
  }
  std::int64_t read_bytes() const { return read_bytes_; }

  const MessagePlan& plan() const { return plan_; }
  RankTransfer& rank(Device rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Bytes& source(Device rank, std::size_t array) { return tile(rank, array, 0); }
  Bytes& target(Device rank, std::size_t array) { return tile(rank, array, 1); }

  // Every message of a round, packed, sent and unpacked. Returns the bytes that were sent.
  std::int64_t move_round(std::int64_t round, bool only_changed = false) {
    std::int64_t bytes = 0;
    const bool begins_phase = round == 0 || round == rank(0).first_passed_on();
    EXPECT_EQ(begins_phase ? exchange_offers(round, only_changed) : "", "");
    for (const RankTransfer& rank : ranks_) read_bytes_ += rank.read(round);
    for (Device from = 0; from < model_.ranks; ++from) {
      for (const Message& message : rank(from).sent(round)) {
        const std::int64_t length = rank(from).pack(round, message.peer, only_changed);
        bytes += length;
        for (const Message& received : rank(message.peer).received(round)) {
          if (received.peer != from) continue;
          EXPECT_EQ(received.bytes.size(), message.bytes.size());
          std::memcpy(received.bytes.data(), message.bytes.data(), static_cast<std::size_t>(length));
        }
      }
    }
    for (Device to = 0; to < model_.ranks; ++to) {
      for (const Message& message : rank(to).received(round)) rank(to).unpack(round, message.peer);
    }
    return bytes;
  }

  std::int64_t move(bool only_changed = false) {
    std::int64_t bytes = 0;
    for (const RankTransfer& rank : ranks_) rank.copy_kept();
    for (std::int64_t round = 0; round < plan_.rounds(); ++round) bytes += move_round(round, only_changed);
    return bytes;
  }

  std::optional<std::string> difference(std::size_t array, Device rank) {
    return find_difference(made(array), target(rank, array).data(), rank, kind_of(array).target.parts(rank));
  }
  std::optional<std::string> difference() {
    for (std::size_t array = 0; array < model_.arrays.size(); ++array) {
      for (Device rank = 0; rank < model_.ranks; ++rank) {
        if (auto found = difference(array, rank)) return found;
      }
    }
    return std::nullopt;
  }

 private:
  const ArrayKind& kind_of(std::size_t array) const { return model_.kinds[model_.arrays[array].kind]; }
  MadeArray made(std::size_t array) const {
    return {kind_of(array).source.global_shape(), bytes_of(kind_of(array).element_type), array};
  }
  // Never without memory.
  std::size_t bytes_in(const Placement& placement, Device rank, std::size_t array) const {
    return static_cast<std::size_t>(placement.size(rank) * bytes_of(kind_of(array).element_type) + 1);
  }
  Bytes& tile(Device rank, std::size_t array, std::size_t side) {
    return tiles_[(static_cast<std::size_t>(rank) * model_.arrays.size() + array) * 2 + side];
  }

  Model model_;
  MessagePlan plan_;
  std::vector<Bytes> tiles_;  // by rank, array and side
  std::vector<RankTransfer> ranks_;
  std::int64_t read_bytes_ = 0;
};

TEST(RankTransfer, gives_every_rank_its_slices_within_the_cap) {
  test::RandomProblems random(31);
  for (int i = 0; i < 150; ++i) {
    const Manifest manifest = test::any_manifest(random);
    const auto cap = static_cast<std::int64_t>(2000 + random.number(20000));
    const auto message = static_cast<std::int64_t>(20 + random.number(500));
    Ranks ranks(model_of(manifest), {cap, message, {}, i % 2 == 0});
    ranks.move();
    ASSERT_EQ(ranks.difference(), std::nullopt) << i;
    const std::vector<std::int64_t> lacking = test::lacking_bytes(manifest);
    for (Device rank = 0; rank < manifest.device_count(); ++rank) {
      ASSERT_EQ(ranks.plan().received_bytes(rank), lacking[static_cast<std::size_t>(rank)]);
      ASSERT_LE(ranks.rank(rank).staged_bytes(), cap);
      ASSERT_EQ(ranks.rank(rank).staged_bytes(), ranks.plan().staged_bytes(rank));
    }
  }
}

TEST(RankTransfer, moves_more_than_caches_hold) {
  Ranks ranks(model_of(make_manifest({{"w", test::problem_of("a=2", "[2500{a}5000, 1010]", "[5000, 505{a}1010]")}})),
              {1 << 20, 1 << 20, {}, true});
  ASSERT_EQ(stores_for(ranks.plan().received_bytes(0)), Stores::streaming);
  ranks.move();
  EXPECT_EQ(ranks.difference(), std::nullopt);
}

TEST(RankTransfer, passes_on_what_has_come_into_a_host) {
  test::RandomProblems random(32);
  int relays = 0;
  for (int i = 0; i < 80; ++i) {
    const Manifest manifest = test::any_manifest(random);
    Ranks ranks(model_of(manifest), {20000, 300, even_hosts(manifest.device_count(), 2), false});
    relays += ranks.rank(0).first_passed_on() < ranks.plan().rounds() ? 1 : 0;
    ranks.move();
    ASSERT_EQ(ranks.difference(), std::nullopt) << i;
  }
  EXPECT_GT(relays, 20);
}

// Two ranks: rows to columns.
Model rows_to_columns(ElementType type = ElementType::f32) {
  Model model = model_of(make_manifest({{"w", test::problem_of("a=2", "[4{a}8, 6]", "[8, 3{a}6]")}}));
  model.kinds[0].element_type = type;
  return model;
}

// --- Memory that ranks read.

TEST(RankTransfer, reads_what_is_sent_as_it_lies) {
  test::RandomProblems random(36);
  for (int i = 0; i < 150; ++i) {
    const Manifest manifest = test::any_manifest(random);
    const Hosts hosts = i % 2 == 0 ? Hosts() : even_hosts(manifest.device_count(), 2);
    Ranks ranks(model_of(manifest), {20000, static_cast<std::int64_t>(40 + random.number(500)), hosts, false}, 1);
    ASSERT_EQ(ranks.move(), 0) << i;
    ASSERT_EQ(ranks.difference(), std::nullopt) << i;
    std::int64_t received = 0;
    for (Device rank = 0; rank < manifest.device_count(); ++rank) {
      received += ranks.plan().received_bytes(rank);
      ASSERT_EQ(ranks.rank(rank).staged_bytes(), 0);
    }
    ASSERT_EQ(ranks.read_bytes(), received);
  }
}

TEST(RankTransfer, reads_some_lanes_and_sends_the_others) {
  test::RandomProblems random(37);
  int mixed = 0;
  for (int i = 0; i < 80; ++i) {
    const Manifest manifest = test::any_manifest(random);
    Ranks ranks(model_of(manifest), {20000, 300, {}, false}, 40);
    const std::int64_t sent = ranks.move();
    ASSERT_EQ(ranks.difference(), std::nullopt) << i;
    mixed += sent > 0 && ranks.read_bytes() > 0 ? 1 : 0;
  }
  EXPECT_GT(mixed, 10);
}

TEST(RankTransfer, sends_where_only_changes_are_wanted) {
  Ranks ranks(rows_to_columns(), {4096, 100, {}, false}, 1);
  EXPECT_EQ(ranks.move(), 0);
  const std::int64_t all = ranks.move(true);
  EXPECT_EQ(all, 2 * (40 + 48));
  EXPECT_EQ(ranks.move(true), 2 * 40);
  ranks.source(0, 0)[3 * 4] ^= std::byte{1};
  EXPECT_EQ(ranks.move(), 0);
  ranks.source(0, 0)[3 * 4] ^= std::byte{1};
  EXPECT_EQ(ranks.move(true), all);  // what was packed last is not what is there
  EXPECT_EQ(ranks.difference(), std::nullopt);
}

TEST(RankTransfer, sends_what_is_converted_checked_or_scattered) {
  EXPECT_THAT(Ranks(rows_to_columns(), {4096, 4096, {}, false}, 1).rank(0).readers(0), ::testing::ElementsAre(1));
  EXPECT_THAT(Ranks(rows_to_columns(), {4096, 4096, {}, true}, 1).rank(0).readers(0), ::testing::IsEmpty());
  // Four rows of 12 bytes with as many between them, which are read along.
  EXPECT_THAT(Ranks(rows_to_columns(), {4096, 4096, {}, false}, 48).rank(0).readers(0), ::testing::ElementsAre(1));
  EXPECT_THAT(Ranks(rows_to_columns(), {4096, 4096, {}, false}, 49).rank(0).readers(0), ::testing::IsEmpty());
  const Model model = rows_to_columns(ElementType::bf16);
  const MessagePlan plan(model.kinds, model.arrays, 2, {});
  std::vector<float> source(24);
  Bytes target(48);
  const RankTransfer converting(
      plan, 0,
      {{0, TransferSide::source, std::as_writable_bytes(std::span(source)).data(), {}, {}, ElementType::f32},
       {0, TransferSide::target, target.data(), {}, {}, {}}},
      std::make_shared<Staging>(), {{0, getpid()}, 1});
  EXPECT_THAT(converting.readers(0), ::testing::IsEmpty());
}

TEST(RankTransfer, tells_ranks_whose_offers_disagree) {
  Ranks ranks(rows_to_columns(), {4096, 4096, {}, false}, 1);
  ASSERT_EQ(ranks.exchange_offers(0), "");
  const Message awaited = ranks.rank(1).awaited_offers(0).front();
  awaited.bytes[0] ^= std::byte{1};
  EXPECT_EQ(error_of([&] { ranks.rank(1).accept_offer(0, 0); }),
            "rank 0 has another transfer than rank 1, or its message was damaged");
  awaited.bytes[0] ^= std::byte{1};
  awaited.bytes[56] ^= std::byte{1};  // the length of the table
  awaited.bytes[64] ^= std::byte{1};  // its version
  EXPECT_EQ(error_of([&] { ranks.rank(1).accept_offer(0, 0); }),
            "rank 1 could not read the memory of rank 0: its table has another length\nhint: transport=\"messages\"");
  EXPECT_THAT(ranks.rank(1).received(0), ::testing::IsEmpty());  // so nobody waits for messages that do not come
}

TEST(RankTransfer, tells_that_the_system_refuses_to_read) {
  const Model model = rows_to_columns();
  const MessagePlan plan(model.kinds, model.arrays, 2, {});
  std::vector<RankTransfer> ranks;
  std::vector<Bytes> tiles(4, Bytes(96));
  for (Device rank = 0; rank < 2; ++rank) {
    const std::size_t i = 2 * static_cast<std::size_t>(rank);
    // The process of rank 0 is none.
    ranks.emplace_back(plan, rank,
                       std::vector<TileMemory>{{0, TransferSide::source, tiles[i].data(), {}, {}, {}},
                                               {0, TransferSide::target, tiles[i + 1].data(), {}, {}, {}}},
                       std::make_shared<Staging>(), ReadableRanks{{INT32_MAX, getpid()}, 1});
  }
  ranks[1].set_lenders(0, {0});
  const Message offer = ranks[0].make_offers(0).front();
  const std::span<std::byte> awaited = ranks[1].awaited_offers(0).front().bytes;
  std::memcpy(awaited.data(), offer.bytes.data(), offer.bytes.size());
  EXPECT_EQ(error_of([&] { ranks[1].accept_offer(0, 0); }),
            "rank 1 could not read the memory of rank 0: it is process " + std::to_string(getpid()) +
                ", and was process 2147483647\nhint: transport=\"messages\"");
  const std::int64_t process = INT32_MAX;
  std::memcpy(awaited.data() + 72, &process, sizeof process);
  EXPECT_EQ(error_of([&] { ranks[1].accept_offer(0, 0); }),
            "rank 1 could not read the memory of rank 0: process_vm_readv: its table could not be read\n"
            "hint: transport=\"messages\"");
}

TEST(RankTransfer, says_after_which_round_an_array_is_there) {
  test::RandomProblems random(33);
  for (int i = 0; i < 40; ++i) {
    const Manifest manifest = test::any_manifest(random);
    Ranks ranks(model_of(manifest), {20000, 40, even_hosts(manifest.device_count(), 1 + i % 2), false});
    for (Device rank = 0; rank < manifest.device_count(); ++rank) ranks.rank(rank).copy_kept();
    for (std::int64_t round = -1; round < ranks.plan().rounds(); ++round) {
      if (round >= 0) ranks.move_round(round);
      for (Device rank = 0; rank < manifest.device_count(); ++rank) {
        const std::vector<std::int64_t> last = ranks.rank(rank).last_rounds();
        for (std::size_t array = 0; array < last.size(); ++array) {
          if (last[array] > round) continue;
          ASSERT_EQ(ranks.difference(array, rank), std::nullopt) << i;
        }
      }
    }
  }
}

// More than a hundred thousand of them.
TEST(RankTransfer, finds_every_flipped_bit) {
  Ranks ranks(model_of(make_manifest({{"w", test::problem_of("a=2", "[56{a}112, 112]", "[112, 56{a}112]")}})),
              {1 << 20, 1 << 20, {}, true});
  ranks.move();
  const Message sent = ranks.rank(0).sent(0).front();
  const Message received = ranks.rank(1).received(0).front();
  ASSERT_EQ(sent.bytes.size(), 40U + 56U * 56U * 4U);
  std::memcpy(received.bytes.data(), sent.bytes.data(), sent.bytes.size());
  for (std::size_t bit = 0; bit < 8 * sent.bytes.size(); ++bit) {
    received.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_NE(error_of([&] { ranks.rank(1).unpack(0, 0); }), "") << bit;
    received.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_EQ(error_of([&] { ranks.rank(1).unpack(0, 0); }), "");
}

// Neighbouring bits of headers and data, up to a word of them.
TEST(RankTransfer, finds_bursts_of_flipped_bits) {
  Ranks ranks(rows_to_columns(), {4096, 4096, {}, true});
  ranks.move();
  const Message sent = ranks.rank(0).sent(0).front();
  const Message received = ranks.rank(1).received(0).front();
  const std::size_t bits = 8 * sent.bytes.size();
  const auto is_found = [&](std::size_t first, std::uint32_t pattern) {
    std::memcpy(received.bytes.data(), sent.bytes.data(), sent.bytes.size());
    for (std::size_t i = 0; i < 32 && first + i < bits; ++i) {
      if ((pattern >> i & 1U) != 0) received.bytes[(first + i) / 8] ^= static_cast<std::byte>(1U << ((first + i) % 8));
    }
    return !error_of([&] { ranks.rank(1).unpack(0, 0); }).empty();
  };
  for (std::size_t first = 0; first + 1 < bits; ++first) EXPECT_TRUE(is_found(first, 3)) << first;
  test::RandomProblems random(35);
  int missed = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::uint32_t pattern = static_cast<std::uint32_t>(random.number(std::size_t{1} << 32U)) | 1U;
    if (!is_found(random.number(bits), pattern)) ++missed;
  }
  EXPECT_EQ(missed, 0);
}

TEST(RankTransfer, finds_flipped_bits_of_long_messages) {
  Ranks ranks(model_of(make_manifest({{"w", test::problem_of("a=2", "[400{a}800, 202]", "[800, 101{a}202]")}})),
              {1 << 20, 1 << 20, {}, true});
  ranks.move();
  const Message sent = ranks.rank(0).sent(0).front();
  const Message received = ranks.rank(1).received(0).front();
  std::memcpy(received.bytes.data(), sent.bytes.data(), sent.bytes.size());
  test::RandomProblems random(34);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t bit = random.number(8 * sent.bytes.size());
    received.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_NE(error_of([&] { ranks.rank(1).unpack(0, 0); }), "") << bit;
    received.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  }
  EXPECT_EQ(error_of([&] { ranks.rank(1).unpack(0, 0); }), "");
}

TEST(RankTransfer, tells_ranks_that_disagree) {
  Ranks some(rows_to_columns(), {4096, 16, {}, true});
  Model renamed = rows_to_columns();
  renamed.arrays[0].name = "v";
  Ranks others(renamed, {4096, 16, {}, true});
  EXPECT_NE(some.plan().fingerprint(), others.plan().fingerprint());
  const auto deliver = [](RankTransfer& from, std::int64_t sent, RankTransfer& to, std::int64_t due) {
    from.pack(sent, 1);
    const Message message = from.sent(sent).front();
    std::memcpy(to.received(due).front().bytes.data(), message.bytes.data(), message.bytes.size());
    return error_of([&] { to.unpack(due, 0); });
  };
  EXPECT_EQ(deliver(some.rank(0), 0, some.rank(1), 0), "");
  EXPECT_EQ(deliver(others.rank(0), 0, some.rank(1), 0),
            "rank 0 has another transfer than rank 1, or its message was damaged");
  EXPECT_EQ(deliver(some.rank(0), 2, some.rank(1), 1), "rank 0 sent round 2 to rank 1, and round 1 is due");
  some.rank(0).pack(0, 1);
  const Message message = some.rank(0).sent(0).front();
  message.bytes.back() ^= std::byte{1};
  std::memcpy(some.rank(1).received(0).front().bytes.data(), message.bytes.data(), message.bytes.size());
  EXPECT_EQ(error_of([&] { some.rank(1).unpack(0, 0); }),
            "round 0 from rank 0 to rank 1 did not arrive as it was sent: its checksum is wrong; it has \"w\"");
}

TEST(RankTransfer, names_the_arrays_of_a_damaged_message) {
  Model model = rows_to_columns();
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) model.arrays.push_back({name, 0});
  const auto told = [&](std::int64_t round, std::int64_t message) {
    Ranks ranks(model, {4096, message, {}, true});
    ranks.rank(0).pack(round, 1);
    const Message sent = ranks.rank(0).sent(round).front();
    sent.bytes.back() ^= std::byte{1};
    std::memcpy(ranks.rank(1).received(round).front().bytes.data(), sent.bytes.data(), sent.bytes.size());
    return error_of([&] { ranks.rank(1).unpack(round, 0); });
  };
  const std::string wrong = " from rank 0 to rank 1 did not arrive as it was sent: its checksum is wrong; it has ";
  // 48 bytes of each array, of which a round takes 85.
  EXPECT_EQ(told(1, 85), "round 1" + wrong + "\"a\", \"b\", \"c\"");
  EXPECT_EQ(told(0, 4096), "round 0" + wrong + "\"w\", \"a\", \"b\", \"c\", \"d\" and 2 more");
}

TEST(RankTransfer, sends_only_what_changed) {
  Ranks ranks(model_of(make_manifest({{"w", test::problem_of("a=2", "[40{a}80, 60]", "[80, 30{a}60]")}})),
              {4096, 100, {}, false});
  const std::int64_t all = ranks.move(true);
  ASSERT_EQ(ranks.difference(), std::nullopt);
  const std::int64_t headers = 2 * ranks.plan().rounds() * 40;
  EXPECT_EQ(ranks.move(true), headers);
  Bytes& source = ranks.source(1, 0);
  std::byte& changed = source[59 * 4];  // in the last column of the first row: rank 1's own
  changed ^= std::byte{1};
  EXPECT_EQ(ranks.move(true), headers);
  std::byte& moved = source[2 * 4];  // in a column that rank 0 wants
  moved ^= std::byte{1};
  const std::int64_t some = ranks.move(true);
  EXPECT_GT(some, headers);
  EXPECT_LE(some, headers + 100);
  EXPECT_EQ(ranks.target(0, 0)[40 * 30 * 4 + 2 * 4], moved);
  EXPECT_EQ(ranks.target(1, 0)[(40 * 30 + 29) * 4], changed);
  // What was sent in full in between counts, and so does what was forgotten.
  moved ^= std::byte{1};
  EXPECT_EQ(ranks.move(), all);
  moved ^= std::byte{1};
  EXPECT_EQ(ranks.move(true), all);
  EXPECT_EQ(ranks.target(0, 0)[40 * 30 * 4 + 2 * 4], moved);
  for (const Device rank : {0, 1}) ranks.rank(rank).forget_sent();
  EXPECT_EQ(ranks.move(true), all);
}

TEST(RankTransfer, converts_while_it_packs) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f64}) {
    for (const std::int64_t message : {5, 7, 4096}) {  // which cut elements
      const Model model = rows_to_columns(type);
      const MessagePlan plan(model.kinds, model.arrays, 2, {4096, message, {}, true});
      std::vector<float> rows[2] = {std::vector<float>(24), std::vector<float>(24)};
      Bytes columns[2];
      std::vector<RankTransfer> ranks;
      const auto size = static_cast<std::size_t>(bytes_of(type));
      for (std::size_t i = 0; i < 2; ++i) {
        for (std::size_t j = 0; j < 24; ++j) rows[i][j] = 1.0F / static_cast<float>(1 + 24 * i + j);
        columns[i].resize(24 * size);
        ranks.emplace_back(
            plan, static_cast<Device>(i),
            std::vector<TileMemory>{
                {0, TransferSide::source, std::as_writable_bytes(std::span(rows[i])).data(), {}, {}, ElementType::f32},
                {0, TransferSide::target, columns[i].data(), {}, {}, {}}});
        ranks.back().copy_kept();
      }
      for (std::int64_t round = 0; round < plan.rounds(); ++round) {
        for (std::size_t i = 0; i < 2; ++i) {
          for (const Message& sent : ranks[i].sent(round)) {
            ranks[i].pack(round, sent.peer);
            std::memcpy(ranks[1 - i].received(round).front().bytes.data(), sent.bytes.data(), sent.bytes.size());
          }
        }
        for (RankTransfer& rank : ranks) {
          for (const Message& received : rank.received(round)) rank.unpack(round, received.peer);
        }
      }
      for (std::size_t i = 0; i < 48; ++i) {
        const float number = 1.0F / static_cast<float>(1 + i);
        std::array<std::byte, 8> expected{};
        convert_elements(ElementType::f32, type, 1, std::as_bytes(std::span(&number, 1)).data(), expected.data());
        const std::byte* found = columns[i % 6 / 3].data() + (i / 6 * 3 + i % 3) * size;
        EXPECT_EQ(std::memcmp(found, expected.data(), size), 0) << i;
      }
    }
  }
}

// --- Memory.

// Rank 0 holds an 4 x 6 array, rank 1 wants two boxes of it.
class BoxMemory : public ::testing::Test {
 protected:
  BoxMemory() { std::iota(source_.begin(), source_.end(), 0.0F); }

  static std::vector<ArrayKind> kinds() {
    return {{placement_of({4, 6}, {{{{0, 0}, {4, 6}}}, {}}),
             placement_of({4, 6}, {{}, {{{0, 0}, {2, 3}}, {{2, 4}, {4, 6}}}}), ElementType::f32}};
  }
  static std::byte* bytes(std::vector<float>& floats, std::size_t at = 0) {
    return std::as_writable_bytes(std::span(floats)).data() + 4 * at;
  }
  std::string refusal(Device rank, const std::vector<TileMemory>& memory) {
    return error_of([&] { RankTransfer(plan_, rank, memory); });
  }

  MessagePlan plan_{kinds(), {{"w", 0}}, 2, {}};
  std::vector<float> source_ = std::vector<float>(24);
  std::vector<float> target_ = std::vector<float>(24, -1);
};

TEST_F(BoxMemory, may_be_anywhere_in_any_order) {
  RankTransfer sender(plan_, 0, {{0, TransferSide::source, bytes(source_), {}, {}, {}}});
  // The first box transposed, the second one backwards and with gaps.
  RankTransfer receiver(plan_, 1,
                        {{0, TransferSide::target, bytes(target_, 23), {-16, -4}, Box{{2, 4}, {4, 6}}, {}},
                         {0, TransferSide::target, bytes(target_), {4, 8}, Box{{0, 0}, {2, 3}}, {}}});
  sender.pack(0, 1);
  const Message message = sender.sent(0).front();
  std::memcpy(receiver.received(0).front().bytes.data(), message.bytes.data(), message.bytes.size());
  receiver.unpack(0, 0);
  EXPECT_THAT(std::vector<float>(target_.begin(), target_.begin() + 7), ::testing::ElementsAre(0, 6, 1, 7, 2, 8, -1));
  EXPECT_THAT(std::vector<float>(target_.begin() + 17, target_.end()),
              ::testing::ElementsAre(-1, 23, 22, -1, -1, 17, 16));
}

TEST_F(BoxMemory, is_refused_with_what_is_wrong) {
  const Box first{{0, 0}, {2, 3}};
  const Box second{{2, 4}, {4, 6}};
  EXPECT_EQ(refusal(0, {}), "the source of \"w\" on rank 0 has no memory for [0:4, 0:6]");
  EXPECT_EQ(refusal(0, {{0, TransferSide::source, nullptr, {}, {}, {}}}), "the source of \"w\" on rank 0 is null");
  EXPECT_EQ(refusal(1, {{0, TransferSide::target, bytes(target_), {}, first, {}}}),
            "the target of \"w\" on rank 1 has no memory for [2:4, 4:6]");
  EXPECT_EQ(refusal(1, {{0, TransferSide::target, bytes(target_), {}, first, {}},
                        {0, TransferSide::target, bytes(target_, 5), {}, second, {}}}),
            "the target of \"w\" on rank 1 overlaps the target of \"w\"");
  EXPECT_EQ(refusal(1, {{0, TransferSide::target, bytes(target_), {0, 4}, first, {}}}),
            "the target of \"w\" on rank 1 has elements that share memory");
  EXPECT_EQ(refusal(1, {{0, TransferSide::target, bytes(target_), {4}, first, {}}}),
            "the target of \"w\" on rank 1 has strides of another number of dimensions");
  EXPECT_EQ(refusal(0, {{0, TransferSide::source, bytes(source_), {}, {}, ElementType::i32}}),
            "the source of \"w\" on rank 0 has elements of i32, which are not converted to f32");
  EXPECT_EQ(refusal(1, {{0, TransferSide::target, bytes(target_), {}, first, ElementType::f64}}),
            "the target of \"w\" on rank 1 has elements of f64, which are not converted to f32");
}

TEST_F(BoxMemory, that_nobody_fills_is_refused) {
  std::vector<ArrayKind> lacking = kinds();
  lacking[0].source = placement_of({4, 6}, {{{{0, 0}, {4, 5}}}, {}});
  EXPECT_EQ(
      test::diagnostic_of([&] {
        return MessagePlan(lacking, {{"w", 0}, {"v", 0}}, 2, {});
      }),
      "error: array \"w\": no rank holds [2:4, 5:6], which rank 1 wants; array \"v\": no rank holds [2:4, 5:6], which "
      "rank 1 wants\n");
  EXPECT_EQ(
      test::diagnostic_of([&] {
        return MessagePlan(kinds(), {{"w", 0}}, 2, {.max_bytes = 81});
      }),
      "error: a cap of 81 bytes per device is too small for the messages of a round: the smallest that works is 82 "
      "bytes\n");
}

// --- Claims.

TEST(Claims, that_overlap_are_cut_along_each_other) {
  test::RandomProblems random(35);
  for (int i = 0; i < 200; ++i) {
    const Shape shape{static_cast<std::int64_t>(1 + random.number(9)), static_cast<std::int64_t>(1 + random.number(9))};
    std::vector<std::vector<Box>> claims(5);
    for (std::vector<Box>& own : claims) {
      Box box{{0, 0}, shape};
      for (std::size_t j = 0; j < 2; ++j) {
        const auto length = static_cast<std::size_t>(shape[j]);
        box.lo[j] = static_cast<std::int64_t>(random.number(length));
        box.hi[j] =
            box.lo[j] + 1 + static_cast<std::int64_t>(random.number(length - static_cast<std::size_t>(box.lo[j])));
      }
      if (random.number(5) > 0) own.push_back(box);
    }
    const Placement placement = placement_of(shape, claims);
    std::vector<Box> all;
    for (std::size_t rank = 0; rank < claims.size(); ++rank) {
      std::vector<Box> parts;
      for (const Part& part : placement.parts(static_cast<Device>(rank))) parts.push_back(part.box);
      all.insert(all.end(), parts.begin(), parts.end());
      if (claims[rank].empty()) {
        EXPECT_TRUE(parts.empty());
        continue;
      }
      EXPECT_EQ(find_uncovered(claims[rank][0], parts), std::nullopt);
      EXPECT_EQ(find_covered_twice(claims[rank][0], parts), std::nullopt);
      for (const Box& part : parts) EXPECT_TRUE(contains(claims[rank][0], part));
    }
    for (const Box& one : all) {
      for (const Box& other : all) EXPECT_TRUE(one == other || !intersect(one, other));
    }
  }
}

TEST(Claims, of_ranks_that_want_different_boxes_are_served) {
  // Rank 0 holds all; the others want boxes that overlap.
  const Shape shape{6, 5};
  const std::vector<Box> wanted{{{0, 0}, {4, 5}}, {{2, 1}, {6, 3}}, {{0, 0}, {6, 5}}};
  const MessagePlan plan({{placement_of(shape, {{{{0, 0}, shape}}, {}, {}, {}}),
                           placement_of(shape, {{}, {wanted[0]}, {wanted[1]}, {wanted[2]}}), ElementType::i8}},
                         {{"w", 0}}, 4, {});
  std::vector<std::byte> array(30);
  for (std::size_t i = 0; i < array.size(); ++i) array[i] = static_cast<std::byte>(i);
  RankTransfer sender(plan, 0, {{0, TransferSide::source, array.data(), {}, {}, {}}});
  for (Device rank = 1; rank < 4; ++rank) {
    const Box& box = wanted[static_cast<std::size_t>(rank - 1)];
    Bytes target(static_cast<std::size_t>(volume(box)));
    RankTransfer receiver(plan, rank, {{0, TransferSide::target, target.data(), {}, box, {}}});
    sender.pack(0, rank);
    for (const Message& message : sender.sent(0)) {
      if (message.peer != rank) continue;
      std::memcpy(receiver.received(0).front().bytes.data(), message.bytes.data(), message.bytes.size());
    }
    receiver.unpack(0, 0);
    std::size_t at = 0;
    for (std::int64_t i = box.lo[0]; i < box.hi[0]; ++i) {
      for (std::int64_t j = box.lo[1]; j < box.hi[1]; ++j) {
        EXPECT_EQ(target[at++], static_cast<std::byte>(i * 5 + j)) << rank;
      }
    }
  }
}

// The insides of padded arrays, packed on rank 0 and columns first on rank 1.
TEST(RankTransfer, reads_no_ghost_zones) {
  const Problem problem = test::problem_of("a=2", "[4{a}8 halo 1, 3]", "[8, 3]");
  const std::vector<ArrayKind> kinds{{problem.source().inside(2), problem.target().placement(2), ElementType::u8}};
  const MessagePlan plan(kinds, {{"u", 0}}, 2, {});
  std::vector<Bytes> sources(2, Bytes(15, std::byte{99}));
  std::vector<Bytes> targets(2, Bytes(24));
  for (std::size_t i = 0; i < 24; ++i) {
    const std::size_t row = i / 3;
    const std::size_t own = row < 4 ? row : row - 3;  // of the padded array, which has a ghost zone at one end
    sources[row / 4][row < 4 ? own * 3 + i % 3 : i % 3 * 5 + own] = static_cast<std::byte>(i);
  }
  std::vector<RankTransfer> ranks;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Strides strides = rank == 0 ? Strides{} : Strides{1, 5};
    ranks.emplace_back(plan, static_cast<Device>(rank),
                       std::vector<TileMemory>{{0, TransferSide::source, sources[rank].data(), strides, {}, {}},
                                               {0, TransferSide::target, targets[rank].data(), {}, {}, {}}});
  }
  for (const RankTransfer& rank : ranks) rank.copy_kept();
  for (std::int64_t round = 0; round < plan.rounds(); ++round) {
    for (Device from = 0; from < 2; ++from) {
      RankTransfer& sender = ranks[static_cast<std::size_t>(from)];
      RankTransfer& receiver = ranks[static_cast<std::size_t>(1 - from)];
      for (const Message& message : sender.sent(round)) {
        (void)sender.pack(round, message.peer);
        std::memcpy(receiver.received(round).front().bytes.data(), message.bytes.data(), message.bytes.size());
        receiver.unpack(round, from);
      }
    }
  }
  for (const Bytes& target : targets) {
    for (std::size_t i = 0; i < 24; ++i) EXPECT_EQ(target[i], static_cast<std::byte>(i));
  }
}

TEST(Claims, within_boxes_are_the_same_memory) {
  // The second rank's columns of 4 x 6, and two boxes that overlap.
  const Placement columns = test::problem_of("a=2", "[4, 3{a}6]", "[4, 3{a}6]").source().placement(2);
  const std::vector<Box> boxes{{{1, 2}, {3, 5}}, {{2, 4}, {4, 6}}};
  const Placement within = placement_within(columns, boxes);
  EXPECT_EQ(within.global_shape(), (Shape{4, 6}));
  EXPECT_THAT(within.parts(0), ::testing::ElementsAre(Part{{{1, 2}, {3, 3}}, 5, {3, 1}}));
  std::int64_t elements = 0;
  for (const Part& part : within.parts(1)) {
    elements += volume(part.box);
    EXPECT_TRUE(contains(boxes[0], part.box) || contains(boxes[1], part.box));
    EXPECT_EQ(part.strides, (Shape{3, 1}));
    EXPECT_EQ(part.offset, 3 * part.box.lo[0] + part.box.lo[1] - 3);
  }
  EXPECT_EQ(elements, 4 + 4 - 1);
  EXPECT_TRUE(placement_within(columns, {}).parts(1).empty());
}

TEST(Claims, that_are_wrong_are_refused) {
  EXPECT_EQ(test::diagnostic_of([] {
              return placement_of({4}, {{}, {{{0}, {5}}}});
            }),
            "error: rank 1 has [0:5], which is no box of an array of [4]\n");
  EXPECT_EQ(test::diagnostic_of([] {
              return placement_of({4}, {{}, {{{0, 0}, {4, 1}}}});
            }),
            "error: rank 1 has [0:4, 0:1], which is no box of an array of [4]\n");
  EXPECT_EQ(test::diagnostic_of([] {
              return placement_of({4}, {{{{0}, {3}}, {{2}, {4}}}});
            }),
            "error: rank 0 has [0:3] and [2:4], which overlap\n");
}

}  // namespace
}  // namespace retile::transfer
