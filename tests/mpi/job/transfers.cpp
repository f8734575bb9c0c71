// Transfers between ranks: every way that streams take, under caps of any size.
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/schedule/planned_streams.h"
#include "retile/transfer.h"
#include "retile/transfer/run.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"

namespace retile::mpi {
namespace {

using test::error_of;

using transfer::Manifest;
using transfer::TransferPlan;
using transfer::TransferReport;

std::vector<MpiOptions> all_options() {
  std::vector<MpiOptions> all(3);
  all[1].transport = Transport::messages;
  all[2].hosts = HostView::every_rank_alone;
  return all;
}

TEST(Transfers, give_every_device_its_slices_within_the_cap) {
  test::RandomProblems random(41);
  for (const MpiOptions& options : all_options()) {
    const auto engine = make_mpi_engine(MPI_COMM_WORLD, options);
    for (int i = 0; i < 10; ++i) {
      const Manifest manifest = test::any_manifest(random, (1 + i % 2) * job_size());
      const Hosts told = even_hosts(manifest.device_count(), 2);
      for (const std::int64_t cap : {200, 1000, 1 << 20}) {
        const TransferPlan plan(manifest, cap, i % 3 == 0 ? told : engine->hosts(manifest.device_count()));
        const TransferReport report = run_transfer(plan, *engine, {7, 2});
        ASSERT_EQ(report.difference, std::nullopt) << i;
        ASSERT_LE(report.staging_bytes_max, cap);
        ASSERT_LE(report.peak_bytes_measured, report.peak_bytes_predicted);
      }
    }
  }
}

TEST(Transfers, of_many_rounds_use_the_cap) {
  if (job_size() == 1) return;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD, all_options()[1]);
  const Mesh mesh({{"a", job_size()}});
  const Shape shape{24 * 64, 24 * 64};
  const Problem problem("", DistributedType::cut(mesh, shape, {{mesh.whole(0)}, {}}),
                        DistributedType::cut(mesh, shape, {{}, {mesh.whole(0)}}));
  std::vector<std::pair<std::string, Problem>> arrays;
  for (const char* name : {"a", "b", "c"}) arrays.emplace_back(name, problem);
  for (const std::int64_t cap : {64 << 10, 100'001, 1 << 20}) {
    const TransferReport report = transfer::run_transfer(TransferPlan(transfer::make_manifest(arrays), cap), *engine);
    EXPECT_EQ(report.difference, std::nullopt);
    EXPECT_LE(report.staging_bytes_max, cap);
    EXPECT_GE(report.staging_bytes_max, cap / 2);
  }
}

// Pages are counted on every rank, after every round.
TEST(Transfers, in_place_give_every_device_its_slices_in_the_pages_predicted) {
  test::RandomProblems random(43);
  for (const MpiOptions& options : all_options()) {
    const auto engine = make_mpi_engine(MPI_COMM_WORLD, options);
    for (int i = 0; i < 10; ++i) {
      const Manifest manifest = test::any_manifest(random, (1 + i % 2) * job_size());
      const Hosts told = even_hosts(manifest.device_count(), 2);
      const Hosts hosts = i % 3 == 0 ? told : Hosts();
      const auto plan_at = [&](std::int64_t cap) { return TransferPlan(manifest, cap, hosts, TileUse::donated); };
      // The smallest cap that works.
      const std::vector<Device> devices = engine->devices(manifest.device_count());
      Streams streams = make_streams(plan_at(100), devices, {});
      const std::vector<bool> staged = engine->find_staged(streams);
      const std::int64_t cap = choose_in_place(plan_at(100), devices, engine->processes(), streams, staged).least_cap;
      const TransferPlan plan = plan_at(cap);
      const TransferReport report = run_transfer(plan, *engine, {7, 2});
      ASSERT_EQ(report.difference, std::nullopt) << i;
      ASSERT_LE(report.staging_bytes_max, cap) << i;
      if (plan.has_relays()) {
        ASSERT_LE(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
      } else {
        ASSERT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
      }
    }
  }
}

Problem rows_to_columns(std::int64_t size) {
  const Mesh mesh({{"a", job_size()}});
  const Shape shape{size, size};
  return {"", DistributedType::cut(mesh, shape, {{mesh.whole(0)}, {}}),
          DistributedType::cut(mesh, shape, {{}, {mesh.whole(0)}})};
}

TEST(Transfers, in_place_peak_at_one_tile_and_the_cap) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const std::int64_t size = 128 * job_size();
  const std::int64_t tile = size * size * 4 / job_size();
  const std::int64_t cap = 256 << 10;
  const TransferPlan plan(transfer::make_manifest({{"w", rows_to_columns(size)}}), cap, {}, TileUse::donated);
  const TransferReport report = run_transfer(plan, *engine);
  EXPECT_EQ(report.difference, std::nullopt);
  EXPECT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted);
  EXPECT_LE(report.peak_bytes_measured, tile + cap);
}

TEST(Transfers, in_place_refuse_a_cap_that_they_would_not_keep) {
  if (job_size() == 1) return;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const TransferPlan plan(transfer::make_manifest({{"w", rows_to_columns(128 * job_size())}}), 100, {},
                          TileUse::donated);
  EXPECT_THROW(run_transfer(plan, *engine), MemoryLimitError);
}

// Sources are memory of the engine, which ranks of a host share, or memory of this rank alone.
TEST(Transfers, in_place_give_back_memory_of_any_kind) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const std::int64_t size = 128 * job_size();
  const Problem problem = rows_to_columns(size);
  const MadeArray array{{size, size}, 4, 5};
  const Tile made = make_tile(array, problem.source().placement().box(job_rank()));
  const Box box = problem.target().placement().box(job_rank());
  transfer::Transfer moved({{"w", problem, {}, {}}},
                           {.max_bytes = 256 << 10, .engine = engine.get(), .in_place = true});
  for (const bool is_shared : {true, false}) {
    Buffer source = is_shared ? engine->allocate(made.bytes.size()) : make_page_buffer(made.bytes.size());
    std::copy(made.bytes.begin(), made.bytes.end(), source.begin());
    Tile target = allocate_tile(box, 4);
    moved.run(std::vector<transfer::ArrayMemory>{
        {"w", {{source.begin(), source.end()}}, {{target.bytes.begin(), target.bytes.end()}}}});
    EXPECT_EQ(find_difference(array, target, job_rank(), box), std::nullopt);
    if (job_size() == 1 && is_shared) continue;  // such as malloc() gives, which may not begin at a page
    std::vector<unsigned char> states(source.size() / 4096);
    EXPECT_EQ(mincore(source.data(), source.size(), states.data()), 0);
    EXPECT_TRUE(std::all_of(states.begin(), states.end(), [](unsigned char state) { return (state & 1U) == 0; }));
  }
}

// Memory that ranks of a host do not see, and tiles that do not lie as others think.
TEST(Transfers, move_memory_of_the_callers_own) {
  const Mesh mesh({{"a", job_size()}});
  const Shape shape{24, 48};
  const Problem problem("", DistributedType::cut(mesh, shape, {{mesh.whole(0)}, {}}),
                        DistributedType::cut(mesh, shape, {{}, {mesh.whole(0)}}));
  const MadeArray array{shape, 4, 5};
  const Tile source = make_tile(array, problem.source().placement().box(job_rank()));
  const Box box = problem.target().placement().box(job_rank());
  Tile target = allocate_tile(box, 4);
  for (const bool is_strided : {false, true}) {
    const auto engine = make_mpi_engine(MPI_COMM_WORLD);
    transfer::TransferArray described{"w", problem, {}, {}};
    // Rank 0's target has columns first, which no other rank knows.
    const Shape extent{box.hi[0] - box.lo[0], box.hi[1] - box.lo[1]};
    const bool is_ours = is_strided && job_rank() == 0;
    if (is_ours) described.targets = {layout_within(extent, {0, 0}, 4, MemoryOrder::column_major)};
    transfer::Transfer moved({described}, {.max_bytes = 10'000, .engine = engine.get()});
    moved.run(std::vector<transfer::ArrayMemory>{
        {"w", {{source.bytes.begin(), source.bytes.end()}}, {{target.bytes.begin(), target.bytes.end()}}}});
    Tile packed = allocate_tile(box, 4);
    const TileLayout lies(box, is_ours ? described.targets[0].strides : Strides());
    copy_box(target.bytes.data(), lies, packed.bytes.data(), TileLayout(box), box, 4);
    EXPECT_EQ(find_difference(array, packed, job_rank(), box), std::nullopt);
  }
}

TEST(Transfers, that_differ_between_ranks_are_refused_by_all) {
  if (job_size() == 1) return;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Mesh mesh({{"a", job_size()}});
  const Problem problem("", DistributedType::cut(mesh, {job_size()}, {{mesh.whole(0)}}),
                        DistributedType::cut(mesh, {job_size()}, {{}}));
  const Manifest manifest = transfer::make_manifest({{job_rank() == 1 ? "a" : "b", problem}});
  EXPECT_EQ(error_of([&] { transfer::PreparedTransfer(TransferPlan(manifest, 1 << 20), *engine); }),
            "the ranks were given different transfers: the name of array 0 is \"b\" on rank 0 and \"a\" on rank 1");
}

TEST(Transfers, of_memory_that_does_not_fit_on_one_rank_are_refused_by_all) {
  if (job_size() == 1) return;
  const auto engine = make_mpi_engine(MPI_COMM_WORLD);
  const Mesh mesh({{"a", job_size()}});
  const Problem problem("", DistributedType::cut(mesh, {job_size()}, {{mesh.whole(0)}}),
                        DistributedType::cut(mesh, {job_size()}, {{}}));
  transfer::Transfer moved({{"w", problem, {}, {}}}, {.engine = engine.get()});
  const Buffer source(4);
  Buffer target(static_cast<std::size_t>(4 * job_size()));
  const std::span<std::byte> whole(target.begin(), target.end());
  EXPECT_EQ(
      error_of([&] {
        moved.check(std::vector<transfer::ArrayMemory>{
            {"w", {{source.begin(), source.end()}}, {job_rank() == 1 ? whole.first(3) : whole}}});
      }),
      "the target of \"w\" on device 1 has 3 bytes of memory, and its tile takes " + std::to_string(4 * job_size()));
}

}  // namespace
}  // namespace retile::mpi
