// The MPI engine and the reference engine agree, byte for byte.
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "retile/checking/made_array.h"
#include "retile/engines/mpi/mpi_engine.h"
#include "retile/engines/reference/reference.h"
#include "retile/planner/planner.h"
#include "retile/types/text.h"
#include "tests/mpi/job/job.h"
#include "tests/support/layouts.h"
#include "tests/support/plans.h"
#include "tests/support/problems.h"
#include "tests/support/whole_arrays.h"

namespace retile::mpi {
namespace {

using test::RandomProblems;

// Tiles as they are before and after a run of the reference engine, for all devices.
struct Expected {
  Tiles before;
  Tiles after;
};

Expected expect(const Movement& movement, std::int64_t element_size, std::uint64_t seed) {
  const Tile array = make_array(movement.source.global_shape(), element_size, seed);
  Expected expected;
  expected.before = slice_array(array, movement.source, element_size);
  expected.after = slice_array(array, movement.source, element_size);
  make_reference_engine()->prepare(movement, element_size)->execute(expected.after);
  return expected;
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  settings.push_back({"reading", {Transport::automatic, 1 << 20, {}, HostView::detected, Reading::always}});
  for (const Transport transport : {Transport::automatic, Transport::collectives, Transport::messages}) {
    for (const HostView hosts : {HostView::detected, HostView::every_rank_alone}) {
      for (const std::int64_t staging : {std::int64_t{4096}, std::int64_t{1} << 20U}) {
        const char* host_name = hosts == HostView::detected ? "" : ", every rank alone";
        settings.push_back({std::string(name_of(transport)) + host_name + ", staging " + std::to_string(staging),
                            {transport, staging, {}, hosts, Reading::never}});
      }
    }
  }
  MpiOptions unlisted;
  unlisted.listed_bytes = 0;
  settings.push_back({"copies without lists", unlisted});
  return settings;
}

// Runs prepared movements and compares with what is expected of this rank's devices.
class Checker {
 public:
  Checker(Engine& engine, const Movement& movement, std::int64_t element_size, const Expected& expected)
      : engine_(engine),
        devices_(engine.devices(movement.mesh.device_count())),
        run_(engine.prepare(movement, element_size)),
        expected_(expected) {}

  // Sources in memory that ranks of a host share, or in the test's own; at odd addresses.
  enum class Memory { shared, own };
  void check_kept(std::size_t misalignment, Memory memory) {
    std::vector<Buffer> sources;
    std::vector<std::vector<std::byte>> targets;
    std::vector<const std::byte*> source_pointers;
    std::vector<std::byte*> target_pointers;
    for (const Device device : devices_) {
      const Buffer& before = tile(expected_.before, device).bytes;
      const std::size_t bytes = before.size() + misalignment;
      sources.push_back(memory == Memory::shared ? engine_.allocate(bytes) : Buffer(bytes));
      std::copy(before.begin(), before.end(), sources.back().begin() + misalignment);
      targets.emplace_back(tile(expected_.after, device).bytes.size() + misalignment);
    }
    for (auto& source : sources) source_pointers.push_back(source.data() + misalignment);
    for (auto& target : targets) target_pointers.push_back(target.data() + misalignment);
    check_statistics(run_->execute(source_pointers, target_pointers));
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const Buffer& after = tile(expected_.after, devices_[i]).bytes;
      EXPECT_TRUE(std::equal(after.begin(), after.end(), target_pointers[i])) << "device " << devices_[i];
      const Buffer& before = tile(expected_.before, devices_[i]).bytes;
      EXPECT_TRUE(std::equal(before.begin(), before.end(), source_pointers[i])) << "device " << devices_[i];
    }
  }

  void check_donated() {
    Tiles tiles;
    for (const Device device : devices_) tiles.push_back(tile(expected_.before, device));
    check_statistics(run_->execute(tiles));
    ASSERT_EQ(tiles.size(), devices_.size());
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      EXPECT_EQ(tiles[i].box, tile(expected_.after, devices_[i]).box) << "device " << devices_[i];
      EXPECT_TRUE(tiles[i].bytes == tile(expected_.after, devices_[i]).bytes) << "device " << devices_[i];
    }
  }

 private:
  static const Tile& tile(const Tiles& tiles, Device device) { return tiles[static_cast<std::size_t>(device)]; }

  static void check_statistics(const RunStatistics& statistics) {
    EXPECT_LE(statistics.peak_measured, statistics.peak_predicted);
    EXPECT_GT(statistics.peak_measured, 0);
    EXPECT_GE(statistics.seconds, 0);
  }

  Engine& engine_;
  const std::vector<Device> devices_;
  const std::unique_ptr<PreparedRun> run_;
  const Expected& expected_;
};

// Meshes with one to three devices on each rank.
std::vector<Mesh> meshes_for(int ranks) {
  std::vector<Mesh> meshes;
  for (std::int64_t devices = ranks; devices <= 3 * ranks && devices <= 24; devices += ranks) {
    meshes.push_back(Mesh({{"a", devices}}));
    for (std::int64_t a = 2; a < devices; ++a) {
      if (devices % a == 0) meshes.push_back(Mesh({{"a", a}, {"b", devices / a}}));
      if (devices % (2 * a) == 0) meshes.push_back(Mesh({{"a", a}, {"b", 2}, {"c", devices / a / 2}}));
    }
  }
  return meshes;
}

const std::vector<std::int64_t> element_sizes{1, 2, 3, 4, 8, 16};

class Agreement : public testing::TestWithParam<Setting> {
 protected:
  void check(const Movement& movement, RandomProblems& random, Engine& engine, const std::string& what) {
    const std::int64_t element_size = random.pick(element_sizes);
    const std::uint64_t seed = random.number(1000000);
    SCOPED_TRACE(what + ", element size " + std::to_string(element_size) + ", " + GetParam().name);
    const Expected expected = expect(movement, element_size, seed);
    Checker checker(engine, movement, element_size, expected);
    if (random.number(2) == 0) checker.check_donated();
    checker.check_kept(random.number(4), Checker::Memory::own);
    if (random.number(2) == 0) checker.check_kept(random.number(4), Checker::Memory::shared);
  }
};

// Each setting's share of the random plans. A plan has about twenty points where all ranks wait for each other, and
// ranks that outnumber the cores of a busy machine need milliseconds for each.
std::size_t plan_count() {
  if (test::is_sweep()) return 1000;
  return job_size() <= 4 ? 16 : 8;
}

TEST_P(Agreement, plans_of_every_planner) {
  RandomProblems random(17);
  const std::unique_ptr<Engine> engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const std::vector<Mesh> meshes = meshes_for(job_size());
  std::vector<test::Planning> plannings = test::all_plannings();
  plannings.push_back({"gather-slice", {}});
  plannings.back().options.planner = PlannerKind::gather_slice;
  for (std::size_t i = 0; i < plan_count(); ++i) {
    const Mesh& mesh = random.pick(meshes);
    const Shape shape = random.shape(static_cast<int>(1 + random.number(3)), {1, 2, 6, 12, 24});
    const Problem problem = random.problem(mesh, shape);
    const test::Planning& planning = random.pick(plannings);
    check(make_plan(problem, planning.options).movement, random, *engine,
          test::describe(problem) + " by " + planning.name);
  }
}

// Placements that no type has, steps in any order.
TEST_P(Agreement, arbitrary_plans) {
  RandomProblems random(23);
  const std::unique_ptr<Engine> engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const rc::Gen<Plan> plans = test::arbitrary_plan();
  std::size_t checked = 0;
  for (std::uint64_t seed = 0; seed < 20 * plan_count() && checked < plan_count(); ++seed) {
    const Plan plan = plans(rc::Random(seed), 20).value();
    if (plan.mesh().device_count() % job_size() != 0) continue;
    check(plan.movement, random, *engine, "arbitrary plan " + std::to_string(seed));
    ++checked;
  }
  EXPECT_GT(checked, plan_count() / 3);
}

// Uneven tiles, views, other meshes, several boxes on a device or none.
TEST_P(Agreement, plans_between_any_layouts) {
  RandomProblems random(37);
  const std::unique_ptr<Engine> engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const std::vector<test::Planning> plannings{test::paper_planning(), test::wide_planning(), test::direct_planning()};
  std::size_t checked = 0;
  for (std::size_t i = 0; i < 100 * plan_count() && checked < plan_count(); ++i) {
    const Problem problem = test::any_problem(random, (1 + static_cast<std::int64_t>(random.number(2))) * job_size());
    if (problem.device_count() % job_size() != 0 || problem.source().local_size() == 0) continue;
    const test::Planning& planning = random.pick(plannings);
    check(make_plan(problem, planning.options).movement, random, *engine,
          test::describe(problem) + " by " + planning.name);
    ++checked;
  }
  EXPECT_EQ(checked, plan_count());
}

// Runs of many pages, pieces of every length, several rounds of collectives.
TEST_P(Agreement, large_tiles) {
  RandomProblems random(29);
  const std::unique_ptr<Engine> engine = make_mpi_engine(MPI_COMM_WORLD, GetParam().options);
  const Mesh mesh({{"a", job_size()}});
  const std::vector<test::Planning> plannings{test::paper_planning(), test::wide_planning(), test::direct_planning()};
  // Little staging makes many small pieces, and ranks wait for each other at each.
  const std::int64_t scale = GetParam().options.staging_bytes == least_staging ? 1 : 10;
  for (const Shape& shape : {Shape{24, 12, 100 * scale}, Shape{12000 * scale}, Shape{24, 480 * scale},
                             Shape{480 * scale, 24}, Shape{23, 480 * scale - 1}}) {
    const Problem problem("", test::uneven_layout(random, mesh, shape), test::uneven_layout(random, mesh, shape));
    const test::Planning& planning = random.pick(plannings);
    check(make_plan(problem, planning.options).movement, random, *engine,
          test::describe(problem) + " by " + planning.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Agreement, testing::ValuesIn(all_settings()));

}  // namespace
}  // namespace retile::mpi
