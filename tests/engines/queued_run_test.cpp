// Runs whose parts stand in a queue of a device's when they are done for the frame.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/staged_engine.h"
#include "retile/planner/planner.h"
#include "tests/support/error_of.h"

namespace retile {
namespace {

using test::error_of;

// What a device has yet to do.
struct Queue {
  int waiting = 0;  // parts of runs
  int looks = 0;    // that are left until all of it is done
};

class QueuedStreams final : public PreparedStreams {
 public:
  QueuedStreams(Streams streams, Queue& queue)
      : streams_(std::move(streams)), queue_(queue), bytes_(static_cast<std::size_t>(streams_.device_count)) {}
  const std::vector<std::int64_t>& received() const override { return bytes_; }
  const std::vector<std::int64_t>& staging(SourceMemory) override { return bytes_; }
  void start(const TilePointers& tiles, SourceMemory, std::span<std::byte>) override {
    for (const Stream& stream : streams_.streams) {
      for (const StreamPiece& piece : streams_.pieces_of(stream)) {
        streams_.shapes[piece.shape].copy().run(
            tiles.sources[static_cast<std::size_t>(stream.from)] + piece.from_offset,
            tiles.targets[static_cast<std::size_t>(stream.to)] + piece.to_offset);
      }
    }
    ++queue_.waiting;
  }
  void start_rounds(const TilePointers&, std::span<std::byte>, const RoundDone&) override {}
  bool advance() override { return false; }
  bool is_done() const override { return true; }

 private:
  const Streams streams_;
  Queue& queue_;
  const std::vector<std::int64_t> bytes_;
};

class EndOfQueue final : public Work {
 public:
  explicit EndOfQueue(Queue& queue) : queue_(queue) {}
  bool advance() override {
    if (--queue_.looks == 0) queue_.waiting = 0;
    return true;
  }
  bool is_done() const override { return queue_.waiting == 0; }

 private:
  Queue& queue_;
};

class QueueBackend final : public Backend {
 public:
  QueueBackend(Queue& queue, bool may_queue) : queue_(queue), may_queue_(may_queue) {}
  const char* name() const override { return "queue"; }
  Progress progress() const override { return Progress::when_advanced; }
  std::unique_ptr<Work> queued() override {
    queue_.looks = 3;
    return std::make_unique<EndOfQueue>(queue_);
  }
  bool may_queue_executions() const override { return may_queue_; }
  std::int64_t listed_bytes() const override { return no_memory_limit; }
  Buffer allocate(std::size_t bytes) override { return Buffer(bytes); }
  void give_back(const std::byte*, std::size_t) override {}
  void for_each(std::size_t count, const std::function<void(std::size_t)>& task) override {
    for (std::size_t i = 0; i < count; ++i) task(i);
  }
  std::shared_ptr<PreparedStreams> prepare(Streams streams) override {
    return std::make_shared<QueuedStreams>(std::move(streams), queue_);
  }

 private:
  Queue& queue_;
  const bool may_queue_;
};

// Rows to columns of four devices.
struct QueuedRun {
  explicit QueuedRun(bool may_queue, PlannerKind planner = PlannerKind::paper)
      : engine(make_staged_engine(std::make_shared<QueueBackend>(queue, may_queue))) {
    PlanOptions options;
    options.planner = planner;
    plan = make_plan(parse_problem({"mesh", "x=2,y=2"}, {"source", "[2{x,y}8, 8, 4]"}, {"target", "[8, 4{y}8, 2{x}4]"}),
                     options);
    run = engine->prepare(plan->movement, 4);
    for (Device device = 0; device < 4; ++device) {
      sources.push_back(make_tile({{8, 8, 4}, 4, 1}, plan->movement.source.box(device)));
      targets.push_back({plan->movement.target().box(device), Buffer(sources.back().bytes.size())});
      from.push_back(sources.back().bytes.data());
      to.push_back(targets.back().bytes.data());
    }
  }
  bool is_moved() const {
    for (Device device = 0; device < 4; ++device) {
      const Tile& tile = targets[static_cast<std::size_t>(device)];
      if (find_difference({{8, 8, 4}, 4, 1}, tile, device, tile.box)) return false;
    }
    return true;
  }

  Queue queue;
  std::unique_ptr<Engine> engine;
  std::optional<Plan> plan;
  std::unique_ptr<PreparedRun> run;
  std::vector<Tile> sources;
  std::vector<Tile> targets;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
};

TEST(QueuedRun, starts_all_parts_and_waits_for_the_queue_once) {
  QueuedRun one(false);
  one.run->start(one.from, one.to);
  EXPECT_GT(one.queue.waiting, 1);
  EXPECT_FALSE(one.run->test());
  EXPECT_TRUE(one.run->test());
  EXPECT_TRUE(one.is_moved());
  one.run->run(one.from, one.to);
  EXPECT_EQ(one.queue.waiting, 0);
}

TEST(QueuedRun, follows_another_where_the_queue_keeps_their_order) {
  QueuedRun one(false);
  one.run->start(one.from, one.to);
  EXPECT_EQ(error_of([&] { one.run->start(one.from, one.to); }), "a run is started before the one before it is done");
  one.run->wait();
  EXPECT_EQ(one.queue.waiting, 0);

  QueuedRun other(true);
  other.run->start(other.from, other.to);
  const int parts = other.queue.waiting;
  other.run->start(other.from, other.to);
  EXPECT_EQ(other.queue.waiting, 2 * parts);
  other.run->wait();
  EXPECT_EQ(other.queue.waiting, 0);
}

TEST(QueuedRun, keeps_donated_tiles_until_the_queue_is_done) {
  QueuedRun one(false);
  Tiles tiles(one.sources.begin(), one.sources.end());
  one.run->execute(tiles);
  EXPECT_EQ(one.queue.waiting, 0);
  one.targets.assign(tiles.begin(), tiles.end());
  EXPECT_TRUE(one.is_moved());
}

}  // namespace
}  // namespace retile
