// Runs that go on while their program does something else, several at once, and how they fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/mpi.h"
#include "retile/plan/text.h"
#include "retile/planner/planner.h"
#include "retile/transfer.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"
#include "tests/support/problems.h"

namespace retile::mpi {
namespace {

using test::error_of;

const std::vector<Setting> settings{
    {"automatic", {}},
    {"reading", {Transport::automatic, 1 << 20, {}, HostView::detected, Reading::always}},
    {"packing", {Transport::automatic, 1 << 16, {}, HostView::detected, Reading::never}},
    {"alone", {Transport::automatic, 1 << 20, {}, HostView::every_rank_alone, Reading::never}},
    {"messages", {Transport::messages, 1 << 20, {}, HostView::detected, Reading::never}},
    {"collectives", {Transport::collectives, 1 << 20, {}, HostView::detected, Reading::never}},
};

// A redistribution under way, between memory of this rank's.
class Field {
 public:
  Field(const Problem& problem, Engine& engine, bool is_shared, std::uint64_t seed)
      : array_{problem.source().global_shape(), 4, seed},
        target_box_(problem.target().placement().box(job_rank())),
        run_(engine.prepare(make_plan(problem).movement, 4)) {
    const Box box = problem.source().placement().box(job_rank());
    const auto bytes = static_cast<std::size_t>(volume(box) * 4);
    source_ = make_tile(array_, box, is_shared ? engine.allocate(bytes) : Buffer(bytes));
    target_ = allocate_tile(target_box_, 4);
  }

  void start() {
    std::fill(target_.bytes.begin(), target_.bytes.end(), std::byte{0});
    from_ = source_.bytes.data();
    to_ = target_.bytes.data();
    run_->start({&from_, 1}, {&to_, 1});
  }
  PreparedRun& run() { return *run_; }
  void check() const { ASSERT_EQ(find_difference(array_, target_, job_rank(), target_box_), std::nullopt); }

 private:
  const MadeArray array_;
  const Box target_box_;
  Tile source_;
  Tile target_;
  std::unique_ptr<PreparedRun> run_;
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
};

class Nonblocking : public testing::TestWithParam<Setting> {};

// Small and large, in memory of every kind, which differs between ranks; waited for in another order on each.
TEST_P(Nonblocking, several_runs_at_once) {
  test::RandomProblems random(91);
  const auto engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const Mesh mesh({{"a", job_size()}});
  std::vector<std::unique_ptr<Field>> fields;
  for (const Shape& shape : {Shape{24, 24}, Shape{240, 2400}, Shape{24, 48}, Shape{2400, 24}, Shape{24, 12, 48}}) {
    const bool is_shared = (fields.size() + static_cast<std::size_t>(job_rank())) % 2 == 0;
    fields.push_back(std::make_unique<Field>(random.problem(mesh, shape), *engine, is_shared, fields.size()));
  }
  for (int repetition = 0; repetition < 10; ++repetition) {
    for (const auto& field : fields) field->start();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      Field& field = *fields[(i + static_cast<std::size_t>(job_rank() + repetition)) % fields.size()];
      if (repetition % 2 == 0) {
        field.run().wait();
      } else {
        // Whoever only tests does so with all of them.
        while (!field.run().test()) {
          for (const auto& other : fields) other->run().test();
        }
      }
      field.check();
    }
  }
}

// Fast ranks may be ahead: nobody waits for all.
TEST_P(Nonblocking, runs_one_after_the_other_whose_memory_changes) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const Mesh mesh({{"a", job_size()}});
  const AxisPart axis = mesh.whole(0);
  for (const std::int64_t size : {24, 480}) {
    const Problem problem("", DistributedType::cut(mesh, {size, size}, {{axis}, {}}),
                          DistributedType::cut(mesh, {size, size}, {{}, {axis}}));
    const auto run = engine->prepare(make_plan(problem).movement, 4);
    const auto count = static_cast<std::size_t>(size * size / job_size());
    Buffer shared = engine->allocate(4 * count);
    std::vector<std::int32_t> own(count);
    std::vector<std::int32_t> target(count);
    for (std::int32_t i = 0; i < 30; ++i) {
      // Sources are of one kind, then of the other, and are overwritten as soon as a run is done.
      auto* source = (i + job_rank()) % 3 == 0 ? own.data() : reinterpret_cast<std::int32_t*>(shared.data());
      std::fill(source, source + count, 1000 * i + job_rank());
      const auto* from = reinterpret_cast<const std::byte*>(source);
      auto* to = reinterpret_cast<std::byte*>(target.data());
      run->run({&from, 1}, {&to, 1});
      std::fill(source, source + count, -1);
      const auto rows = static_cast<std::size_t>(size / job_size());
      for (std::size_t row = 0; row < static_cast<std::size_t>(size); ++row) {
        const std::int32_t expected = 1000 * i + static_cast<std::int32_t>(row / rows);
        ASSERT_EQ(target[row * rows], expected) << size << ", run " << i << ", row " << row;
        ASSERT_EQ(target[row * rows + rows - 1], expected) << size << ", run " << i << ", row " << row;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Nonblocking, testing::ValuesIn(settings));

// The first rank starts before the others, so that its run cannot be done at once.
TEST(NonblockingRuns, are_started_when_the_one_before_is_done) {
  if (job_size() == 1) return;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Mesh mesh({{"a", job_size()}});
  Field field(Problem("", DistributedType::cut(mesh, {24}, {{mesh.whole(0)}}), DistributedType::cut(mesh, {24}, {{}})),
              *engine, false, 1);
  if (job_rank() != 0) MPI_Barrier(MPI_COMM_WORLD);
  field.start();
  if (job_rank() == 0) {
    EXPECT_EQ(error_of([&] { field.start(); }), "a run is started before the one before it is done");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  field.run().wait();
  field.run().wait();
  EXPECT_TRUE(field.run().test());
}

// The last rank goes away at once, with what it has packed for the others.
TEST(NonblockingRuns, may_go_before_others_have_read_what_they_packed) {
  for (int i = 0; i < 5; ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    {
      const auto engine = engine_of(comm);
      const Mesh mesh({{"a", job_size()}});
      Field field(Problem("", DistributedType::cut(mesh, {24, 24}, {{mesh.whole(0)}, {}}),
                          DistributedType::cut(mesh, {24, 24}, {{}, {mesh.whole(0)}})),
                  *engine, false, 3);
      for (int run = 0; run < 3; ++run) {
        field.start();
        field.run().wait();
        field.check();
      }
    }
    MPI_Comm_free(&comm);
  }
}

// Fields with one layout each, in one transfer.
TEST(NonblockingRuns, are_transfers_too) {
  const Mesh mesh({{"a", job_size()}});
  const Shape shape{24, 48};
  const Problem problem("", DistributedType::cut(mesh, shape, {{mesh.whole(0)}, {}}),
                        DistributedType::cut(mesh, shape, {{}, {mesh.whole(0)}}));
  const auto engine = engine_of(MPI_COMM_WORLD);
  const std::vector<std::string> names{"density", "pressure", "temperature"};
  std::vector<transfer::TransferArray> arrays;
  std::vector<Tile> sources;
  std::vector<Tile> targets;
  for (std::size_t i = 0; i < names.size(); ++i) {
    arrays.push_back({names[i], problem, {}, {}});
    sources.push_back(make_tile(MadeArray{shape, 4, i}, problem.source().placement().box(job_rank())));
    targets.push_back(allocate_tile(problem.target().placement().box(job_rank()), 4));
  }
  transfer::Transfer moved(arrays, {.engine = engine.get()});
  std::vector<transfer::ArrayMemory> memory;
  for (std::size_t i = 0; i < names.size(); ++i) {
    memory.push_back({names[i],
                      {{sources[i].bytes.begin(), sources[i].bytes.end()}},
                      {{targets[i].bytes.begin(), targets[i].bytes.end()}}});
  }
  moved.start(memory);
  while (!moved.test()) continue;
  for (std::size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(find_difference(MadeArray{shape, 4, i}, targets[i], job_rank(), targets[i].box), std::nullopt);
  }
  EXPECT_GT(moved.statistics().seconds, 0);
}

// --- Failures.

// Every rank needs something of every other.
TEST(FailedRuns, throw_on_every_rank_that_waits_and_end_the_engine) {
  if (job_size() == 1) return;
  for (const HostView hosts : {HostView::detected, HostView::every_rank_alone}) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MpiOptions options;
    options.hosts = hosts;
    const Mesh mesh({{"a", job_size()}});
    const Problem problem("", DistributedType::cut(mesh, {24, 48}, {{mesh.whole(0)}, {}}),
                          DistributedType::cut(mesh, {24, 48}, {{}, {mesh.whole(0)}}));
    auto redistribution = prepare<float>(problem, comm, {}, options);
    const auto size = static_cast<std::size_t>(24 * 48 / job_size());
    const std::vector<float> source(size);
    std::vector<float> target(size);
    const std::span<const float> from(source);
    const std::span<float> to(target);
    redistribution.run({&from, 1}, {&to, 1});
    const bool fails = job_rank() == job_size() - 1;
    const std::string why = "the target of device " + std::to_string(job_size() - 1) + " has 0 bytes of memory, and " +
                            "its tile takes " + group_digits(static_cast<std::int64_t>(4 * size));
    const std::string told = "rank " + std::to_string(job_size() - 1) + ": " + why;
    const std::span<float> nothing;
    EXPECT_EQ(error_of([&] { redistribution.run({&from, 1}, {fails ? &nothing : &to, 1}); }), fails ? why : told);
    EXPECT_EQ(error_of([&] { redistribution.run({&from, 1}, {&to, 1}); }), "an earlier run failed: " + told);
    EXPECT_EQ(error_of([&] { prepare<float>(problem, comm, {}, options); }), "an earlier run failed: " + told);
    // A program that goes on does so with another communicator.
    MPI_Comm other = MPI_COMM_NULL;
    MPI_Comm_dup(comm, &other);
    EXPECT_EQ(error_of([&] { redistribute<float>(problem, other, source, target); }), "");
    MPI_Comm_free(&other);
    MPI_Comm_free(&comm);
  }
}

// One rank alone fails, and nobody waits for it: what it has told is under way when the engine ends.
TEST(FailedRuns, leave_nothing_behind_for_engines_that_come_later) {
  const Mesh mesh({{"a", job_size()}});
  const DistributedType kept = DistributedType::cut(mesh, {24, 48}, {{mesh.whole(0)}, {}});
  const Problem nothing_moves("", kept, kept);
  const Problem all_move("", kept, DistributedType::cut(mesh, {24, 48}, {{}, {mesh.whole(0)}}));
  const auto size = static_cast<std::size_t>(24 * 48 / job_size());
  const std::vector<float> source(size);
  std::vector<float> target(size);
  const std::span<const float> from(source);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  auto failing = std::make_optional(prepare<float>(nothing_moves, comm));
  MPI_Barrier(comm);  // the others wait for nothing when the first rank fails, and do not hear of it
  const std::span<float> to(target.data(), job_rank() == 0 ? 0 : size);
  EXPECT_EQ(error_of([&] { failing->run({&from, 1}, {&to, 1}); }) != "", job_rank() == 0);
  failing.reset();
  MPI_Comm_free(&comm);
  for (int turn = 0; turn < 3; ++turn) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    auto later = prepare<float>(all_move, comm);
    if (job_rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the others look for failures
    const std::span<float> whole(target);
    EXPECT_EQ(error_of([&] { later.run({&from, 1}, {&whole, 1}); }), "") << turn;
    MPI_Comm_free(&comm);
  }
}

}  // namespace
}  // namespace retile::mpi
