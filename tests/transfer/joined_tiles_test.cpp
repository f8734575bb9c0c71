// Transfers in place between joined tiles, on an engine whose pages can be neither read nor written while they are not
// there, as those of a GPU.
#include "retile/transfer/joined_tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "evaluation/sampler.h"
#include "retile/base/arithmetic.h"
#include "retile/base/error.h"
#include "retile/checking/made_array.h"
#include "retile/engines/threads/threads.h"
#include "retile/schedule/planned_streams.h"
#include "retile/transfer.h"
#include "retile/transfer/in_place.h"
#include "retile/transfer/run.h"
#include "tests/support/error_of.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"
#include "tests/support/problems.h"

namespace retile::transfer {
namespace {

using ::testing::HasSubstr;

// Memory of the host with pages as large as the test wants.
class GuardedPages {
 public:
  explicit GuardedPages(std::int64_t page) : page_(page) {}

  std::int64_t page() const { return page_; }

  Buffer reserve(std::size_t bytes) {
    if (bytes == 0) return {};
    const auto size = static_cast<std::size_t>(round_up(bytes) + page_);
    void* const whole = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (whole == MAP_FAILED) throw RuntimeError("no memory");
    auto* const begin = static_cast<std::byte*>(whole);
    const auto before =
        static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(whole) % static_cast<std::uintptr_t>(page_));
    const std::byte* const first = begin + (page_ - before);
    there_.erase(there_.lower_bound(first), there_.lower_bound(first + bytes));  // of memory that was here before
    return {begin + (page_ - before), bytes,
            std::shared_ptr<void>(whole, [size](void* memory) { munmap(memory, size); })};
  }
  void take(const std::byte* pages, std::size_t bytes) { set(pages, bytes, true); }
  void give_back(const std::byte* pages, std::size_t bytes) { set(pages, bytes, false); }

  std::int64_t resident_bytes(const Buffer& memory) const {
    const auto first = there_.lower_bound(memory.data());
    const auto last = there_.lower_bound(memory.data() + memory.size());
    return page_ * std::count_if(first, last, [](const auto& entry) { return entry.second; });
  }
  std::int64_t round_up(std::size_t bytes) const { return divide_up(static_cast<std::int64_t>(bytes), page_) * page_; }

 private:
  void set(const std::byte* pages, std::size_t bytes, bool is_there) {
    void* const memory = const_cast<std::byte*>(pages);  // NOLINT(*-const-cast)
    if (!is_there) madvise(memory, bytes, MADV_DONTNEED);
    if (mprotect(memory, bytes, is_there ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) throw RuntimeError("mprotect");
    for (std::size_t at = 0; at < bytes; at += static_cast<std::size_t>(page_)) there_[pages + at] = is_there;
  }

  const std::int64_t page_;
  std::map<const std::byte*, bool> there_;
};

class PagedRun final : public PreparedRun {
 public:
  PagedRun(std::unique_ptr<PreparedRun> run, GuardedPages& pages) : run_(std::move(run)), pages_(pages) {}

  void start(std::span<const std::byte* const> from, std::span<std::byte* const> to) override { run_->start(from, to); }
  bool test() override { return run_->test(); }
  void wait() override { run_->wait(); }
  RunStatistics statistics() override { return run_->statistics(); }
  RunStatistics execute(std::span<const std::byte* const> from, std::span<std::byte* const> to) override {
    return run_->execute(from, to);
  }
  RunStatistics execute(Tiles& tiles) override { return run_->execute(tiles); }
  void start_in_place(std::span<const std::byte* const> from, std::span<std::byte* const> to,
                      const RoundDone& done) override {
    run_->start_in_place(from, to, done);
  }
  void give_back(const std::byte* pages, std::size_t bytes) override { pages_.give_back(pages, bytes); }
  void take(const std::byte* pages, std::size_t bytes) override { pages_.take(pages, bytes); }

 private:
  const std::unique_ptr<PreparedRun> run_;
  GuardedPages& pages_;
};

class PagedEngine final : public Engine {
 public:
  explicit PagedEngine(std::int64_t page) : pages_(page) {}

  const char* name() const override { return "paged"; }
  std::vector<Device> devices(std::int64_t count) const override { return threads_->devices(count); }
  bool has_host_memory() const override { return false; }
  std::int64_t page_bytes() const override { return pages_.page(); }
  Buffer allocate_pages(std::size_t bytes, Pages pages) override {
    Buffer memory = pages_.reserve(bytes);
    if (pages == Pages::there && bytes > 0) {
      pages_.take(memory.data(), static_cast<std::size_t>(pages_.round_up(bytes)));
    }
    return memory;
  }
  std::int64_t resident_bytes(const Buffer& memory) const override { return pages_.resident_bytes(memory); }
  std::unique_ptr<PreparedRun> prepare(const Movement& movement, std::int64_t element_size,
                                       const BufferStrides& strides) override {
    return threads_->prepare(movement, element_size, strides);
  }
  std::unique_ptr<PreparedRun> prepare_transfer(std::vector<Streams> phases) override {
    return std::make_unique<PagedRun>(threads_->prepare_transfer(std::move(phases)), pages_);
  }

 private:
  const std::unique_ptr<Engine> threads_ = make_threads_engine({2});
  GuardedPages pages_;
};

InPlaceFigures joined_figures(const TransferPlan& plan, std::int64_t page) {
  const std::vector<Device> devices = all_devices(plan.device_count());
  const JoinedSides sides(plan);
  Streams streams = join_tiles(make_streams(plan, devices, {}), sides);
  return choose_in_place(plan, devices, one_process(), streams, {}, page, &sides);
}

void expect_as_predicted(const Manifest& manifest, std::int64_t cap, std::int64_t page) {
  PagedEngine engine(page);
  const std::int64_t least = joined_figures(TransferPlan(manifest, cap, {}, TileUse::donated), page).least_cap;
  const TransferPlan plan(manifest, std::max(cap, least), {}, TileUse::donated);
  const TransferReport report = run_transfer(plan, engine, {1, 2});
  const InPlaceFigures figures = joined_figures(plan, page);
  EXPECT_EQ(report.difference, std::nullopt);
  EXPECT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted);
  EXPECT_EQ(report.peak_bytes_predicted, *std::max_element(figures.peaks.begin(), figures.peaks.end()));
}

TEST(JoinedTiles, of_any_arrays_are_measured_as_predicted) {
  test::RandomProblems random(31);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    expect_as_predicted(test::any_manifest(random), 4096, i % 2 == 0 ? 4096 : 16384);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(JoinedTiles, of_the_papers_family_are_measured_as_predicted) {
  const std::vector<Problem> family = test::file_problems();
  for (std::size_t i = 0; i < family.size(); i += test::is_sweep() ? 10U : 100U) {
    SCOPED_TRACE(i);
    const Problem problem = evaluation::scale_problem(family[i], 1.0 / 64);
    expect_as_predicted(make_manifest({{"v", problem}, {"w", problem}}), 256 << 10, 64 << 10);
    if (testing::Test::HasFailure()) return;
  }
}

// What a caller does: two arrays on four devices, in memory of the engine's.
TEST(JoinedTiles, of_a_caller_are_moved_in_place) {
  constexpr std::int64_t page = 16384;
  PagedEngine engine(page);
  const Problem rows = test::problem_of("x=4", "[64{x}256, 96]", "[256, 24{x}96]");
  const Problem bias = test::problem_of("x=4", "[25{x}100]", "[100]");
  Transfer transfer({{"bias", bias}, {"rows", rows}}, {.max_bytes = 2 * page, .engine = &engine, .in_place = true});
  const auto round_up = [](std::int64_t bytes) { return divide_up(bytes, joined_alignment) * joined_alignment; };
  std::vector<Buffer> memory;  // of sources and of targets, device by device
  std::vector<ArrayMemory> arrays{{"bias", {}, {}}, {"rows", {}, {}}};
  for (std::size_t device = 0; device < 4; ++device) {
    const TileBytes first = transfer.tile_bytes(0, device);
    const TileBytes second = transfer.tile_bytes(1, device);
    memory.push_back(
        engine.allocate_pages(static_cast<std::size_t>(round_up(first.source) + second.source), Engine::Pages::there));
    std::byte* const from = memory.back().data();
    memory.push_back(engine.allocate_pages(static_cast<std::size_t>(round_up(first.target) + second.target),
                                           Engine::Pages::to_come));
    std::byte* const to = memory.back().data();
    arrays[0].sources.emplace_back(from, static_cast<std::size_t>(first.source));
    arrays[0].targets.emplace_back(to, static_cast<std::size_t>(first.target));
    arrays[1].sources.emplace_back(from + round_up(first.source), static_cast<std::size_t>(second.source));
    arrays[1].targets.emplace_back(to + round_up(first.target), static_cast<std::size_t>(second.target));
    for (std::size_t i = 0; i < 2; ++i) {
      const Problem& problem = i == 0 ? bias : rows;
      const MadeArray made{problem.source().global_shape(), 4, i};
      const Tile tile = make_tile(made, problem.source().placement().box(static_cast<Device>(device)));
      engine.store({tile.bytes.begin(), tile.bytes.end()}, i == 0 ? from : from + round_up(first.source));
    }
  }
  transfer.run(arrays);
  for (std::size_t i = 0; i < 2; ++i) {
    const Problem& problem = i == 0 ? bias : rows;
    const Placement target = problem.target().placement();
    for (Device device = 0; device < 4; ++device) {
      EXPECT_EQ(
          find_difference({problem.source().global_shape(), 4, i},
                          arrays[i].targets[static_cast<std::size_t>(device)].data(), device, target.parts(device)),
          std::nullopt);
    }
  }
  for (std::size_t i = 0; i < memory.size(); i += 2) EXPECT_EQ(engine.resident_bytes(memory[i]), 0);
}

TEST(JoinedTiles, lie_one_after_the_other) {
  const Manifest manifest = make_manifest(
      {{"v", test::problem_of("x=2", "[10{x}20]", "[20]")}, {"w", test::problem_of("x=2", "[100{x}200]", "[200]")}});
  const TransferPlan plan(manifest, 1 << 20, {}, TileUse::donated);
  const JoinedTiles joined(plan, PageUse::last_read);
  EXPECT_EQ(joined.offset(1, 1), 256);
  EXPECT_EQ(joined.bytes(1), 256 + 512);
  const Buffer memory = make_page_buffer(65536);
  const std::vector<Device> devices{0, 1};
  const std::vector<std::int64_t> bytes{40, 40, 400, 400};
  std::vector<const std::byte*> tiles{memory.data(), memory.data() + 8192, memory.data() + 256,
                                      memory.data() + 8192 + 256};
  EXPECT_EQ(find_joined(joined, tiles, bytes, devices, 4096),
            (std::vector<const std::byte*>{memory.data(), memory.data() + 8192}));
  tiles[3] += 16;
  EXPECT_THAT(test::error_of([&] { (void)find_joined(joined, tiles, bytes, devices, 4096); }),
              HasSubstr("in place, tiles of device 1 do not lie one after the other, each from a multiple of 256 bytes "
                        "on, from a page of 4096 bytes on"));
}

}  // namespace
}  // namespace retile::transfer
