// A rank without memory while a run is prepared: wherever it fails, all ranks are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "retile/engines/mpi/mpi_engine.h"
#include "retile/planner/planner.h"
#include "tests/mpi/job/job.h"
#include "tests/support/error_of.h"

namespace {

// Allocations until the first one that fails; below 0: none fails.
std::int64_t allocations_left = -1;

}  // namespace

// Not inlined: compilers warn of memory of `new` that goes to free().
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace retile::mpi {
namespace {

// While it lives, this rank has memory for so many allocations; below 0: for all.
class FewAllocations {
 public:
  explicit FewAllocations(std::int64_t allocations) { allocations_left = allocations; }
  FewAllocations(const FewAllocations&) = delete;
  FewAllocations& operator=(const FewAllocations&) = delete;
  ~FewAllocations() { allocations_left = -1; }
};

// What this rank is told when the movement is prepared while the last rank has memory for so many allocations; "" where
// the run was prepared.
std::string prepare_within(std::int64_t allocations, const Movement& movement, const MpiOptions& options) {
  const auto engine = make_mpi_engine(MPI_COMM_WORLD, options);
  std::unique_ptr<PreparedRun> run;
  try {
    const FewAllocations few(differs() ? allocations : -1);
    run = engine->prepare(movement, 4);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const RuntimeError& error) {
    return error.what();
  }
  // This rank may have been through when the other one failed: it is told when it next waits for others.
  return test::error_of([&] { run->statistics(); });
}

TEST(NoMemory, while_a_run_is_prepared_is_told_to_all_ranks) {
  if (job_size() == 1) return;
  const Mesh mesh({{"a", job_size()}});
  const Problem problem("", DistributedType::cut(mesh, {24, 48}, {{mesh.whole(0)}, {}}),
                        DistributedType::cut(mesh, {24, 48}, {{}, {mesh.whole(0)}}));
  const Movement movement = make_plan(problem).movement;
  const std::string expected =
      differs() ? "out of memory" : "rank " + std::to_string(job_size() - 1) + ": out of memory";
  for (const HostView hosts : {HostView::detected, HostView::every_rank_alone}) {
    MpiOptions options;
    options.hosts = hosts;
    int failures = 0;
    for (std::int64_t allocations = 0; allocations < 100000; allocations += 1 + allocations) {
      const std::string told = prepare_within(allocations, movement, options);
      if (told.empty()) break;
      EXPECT_THAT(told, testing::EndsWith(expected)) << allocations << " allocations";
      ++failures;
    }
    EXPECT_GT(failures, 5);
    EXPECT_EQ(prepare_within(-1, movement, options), "");
  }
}

}  // namespace
}  // namespace retile::mpi
