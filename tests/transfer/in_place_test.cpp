#include "retile/transfer/in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evaluation/sampler.h"
#include "retile/base/error.h"
#include "retile/engines/threads/threads.h"
#include "retile/schedule/planned_streams.h"
#include "retile/transfer/run.h"
#include "retile/transfer/verify.h"
#include "retile/types/text.h"
#include "tests/support/diagnostic_of.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"
#include "tests/support/problems.h"

namespace retile::transfer {
namespace {

// With the smallest cap that works, or a larger one.
TransferPlan plan_within(const Manifest& manifest, std::int64_t cap, const Hosts& hosts = {}) {
  TransferPlan plan(manifest, cap, hosts, TileUse::donated);
  const std::int64_t least = choose_in_place(plan).least_cap;
  return least <= cap ? std::move(plan) : TransferPlan(manifest, least, hosts, TileUse::donated);
}

std::int64_t largest(const std::vector<std::int64_t>& bytes) { return *std::max_element(bytes.begin(), bytes.end()); }

TEST(InPlace, refuses_tiles_that_are_not_row_major) {
  const Mesh mesh = parse_mesh("a=2");
  const Problem problem("", parse_layout("[4{a}8, 6]", mesh), parse_layout("[8, 3{a}6] order [1, 0]", mesh));
  const Manifest manifest = make_manifest({{"w", problem}});
  EXPECT_EQ(find_faults(TransferPlan(manifest, 4096)), std::vector<std::string>());
  EXPECT_EQ(test::diagnostic_of([&] { TransferPlan(manifest, 4096, {}, TileUse::donated); }),
            "error: array \"w\" has an order of dimensions in memory: in place, tiles are row-major\n"
            "hint: leave the order out, or keep the sources\n");
}

TEST(InPlace, gives_every_device_its_slices_in_the_pages_predicted) {
  const auto engine = make_threads_engine({2});
  test::RandomProblems random(21);
  for (int i = 0; i < 60; ++i) {
    const TransferPlan plan = plan_within(test::any_manifest(random), 4096);
    const TransferReport report = run_transfer(plan, *engine, {1, 2});
    ASSERT_EQ(report.difference, std::nullopt) << i;
    ASSERT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
    ASSERT_EQ(report.peak_bytes_predicted, largest(choose_in_place(plan).peaks)) << i;
  }
}

// Tiles of many pages, at a sixty-fourth of their size.
TEST(InPlace, of_the_papers_family_is_measured_as_predicted) {
  const auto engine = make_threads_engine({2});
  const std::vector<Problem> family = test::file_problems();
  for (std::size_t i = 0; i < family.size(); i += test::is_sweep() ? 5U : 50U) {
    const Problem problem = evaluation::scale_problem(family[i], 1.0 / 64);
    const TransferPlan plan = plan_within(make_manifest({{"v", problem}, {"w", problem}}), 64 << 10);
    const TransferReport report = run_transfer(plan, *engine);
    ASSERT_EQ(report.difference, std::nullopt) << i;
    ASSERT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
  }
}

// Whichever cap was refused.
TEST(InPlace, names_the_smallest_cap) {
  const auto engine = make_threads_engine({2});
  test::RandomProblems random(25);
  for (int i = 0; i < 30; ++i) {
    const Manifest manifest = test::any_manifest(random);
    const auto plan_at = [&](std::int64_t cap) { return TransferPlan(manifest, cap, {}, TileUse::donated); };
    const std::int64_t least = choose_in_place(plan_at(0)).least_cap;
    ASSERT_LE(run_transfer(plan_at(least), *engine).in_place->excess, least) << i;
    for (std::int64_t cap = 1; cap < least; cap *= 8) {
      ASSERT_EQ(choose_in_place(plan_at(cap)).least_cap, least) << i;
      ASSERT_THROW(PreparedTransfer(plan_at(cap), *engine), MemoryLimitError) << i;
    }
    if (least == 0) continue;
    ASSERT_THROW(PreparedTransfer(plan_at(least - 1), *engine), MemoryLimitError) << i;
  }
}

TEST(InPlace, fills_a_part_of_a_target_at_a_time_whatever_the_cap) {
  const TransferPlan plan(make_manifest({{"w", test::problem_of("x=4", "[256{x}1024, 1024]", "[1024, 256{x}1024]")}}),
                          16 << 20, {}, TileUse::donated);
  const InPlaceFigures figures = choose_in_place(plan);
  EXPECT_EQ(figures.rounds, 16);
  EXPECT_EQ(figures.excess, 64 << 10);
}

// Devices with one side alone have nothing to give back early, whatever their streams.
TEST(InPlace, of_a_trainer_and_a_server_takes_nothing_beyond) {
  const Problem problem = test::problem_of({"x=4", "[256{x}1024, 1024]", "y=2", "[1024, 512{y}1024]"});
  MeshLayout server = *problem.target().cuts();
  server.devices = {4, 5};
  const Problem apart("", problem.source(), Layout(server));
  const TransferPlan plan(make_manifest({{"w", apart}}), 0, {}, TileUse::donated);
  const InPlaceFigures figures = choose_in_place(plan);
  EXPECT_EQ(figures.excess, 0);
  EXPECT_EQ(figures.peaks, figures.larger);
}

TEST(InPlace, rows_to_columns_peak_at_one_tile_and_the_cap) {
  const auto engine = make_threads_engine({2});
  for (const test::ProblemText text : {test::ProblemText{"x=4", "[256{x}1024, 1024]", "x=4", "[1024, 256{x}1024]"},
                                       test::ProblemText{"x=4", "[1024, 256{x}1024]", "x=4", "[256{x}1024, 1024]"}}) {
    const TransferPlan plan(make_manifest({{"w", problem_of(text)}}), 128 << 10, {}, TileUse::donated);
    const InPlaceFigures figures = choose_in_place(plan);
    EXPECT_EQ(largest(figures.larger), 1 << 20);
    EXPECT_LE(figures.excess, 128 << 10);
    const TransferReport report = run_transfer(plan, *engine);
    EXPECT_EQ(report.difference, std::nullopt);
    EXPECT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted);
    EXPECT_LE(report.peak_bytes_measured, (1 << 20) + (128 << 10));
  }
}

TEST(InPlace, of_many_arrays_peaks_at_the_larger_side_and_the_cap) {
  const auto engine = make_threads_engine({2});
  std::vector<std::pair<std::string, Problem>> arrays;
  for (int i = 0; i < 16; ++i) {
    arrays.emplace_back("rows" + std::to_string(i), test::problem_of("x=4", "[64{x}256, 1024]", "[256, 256{x}1024]"));
    arrays.emplace_back("columns" + std::to_string(i),
                        test::problem_of("x=4", "[256, 256{x}1024]", "[64{x}256, 1024]"));
  }
  const TransferPlan plan(make_manifest(arrays), 512 << 10, {}, TileUse::donated);
  const TransferReport report = run_transfer(plan, *engine);
  EXPECT_EQ(report.difference, std::nullopt);
  EXPECT_LE(report.peak_bytes_measured, (8 << 20) + (512 << 10));
}

TEST(InPlace, frees_before_it_starts_what_nobody_reads) {
  // Device 1 sends nothing: what device 0 keeps is its own, and so is what device 1 keeps.
  const TransferPlan plan(make_manifest({{"w", test::problem_of("x=2", "[65536]", "[32768{x}65536]")}}), 1 << 20);
  const Buffer sources[] = {make_page_buffer(4 * 65536), make_page_buffer(4 * 65536)};
  const std::vector<std::span<const std::byte>> memory{{sources[0].begin(), sources[0].end()},
                                                       {sources[1].begin(), sources[1].end()}};
  std::size_t bytes = 0;
  const std::vector<Device> devices{0, 1};
  const InPlaceSchedule schedule = make_schedule(make_streams(plan, devices, {}), devices);
  const std::vector<std::vector<PageRange>> released = find_released(schedule, memory);
  for (const PageRange& range : released.back()) bytes += range.bytes;
  EXPECT_EQ(bytes, 2 * 4 * 32768U);
}

// Two tiles in one buffer, the first of which ends in the middle of a page.
TEST(InPlace, gives_back_pages_that_are_sources_as_a_whole) {
  const auto page = static_cast<std::size_t>(page_bytes());
  InPlaceSchedule schedule;
  schedule.rounds = 3;
  schedule.last_reads = {{{2, 0}, {1, 1}}, {{1, 2}}};
  const Buffer buffer = make_page_buffer(8 * page);
  const std::byte* first = buffer.data();
  const std::size_t half = page / 2;
  const auto released = [&](std::size_t start) {
    const std::vector<std::span<const std::byte>> memory{{first + start, 2 * page + half},
                                                         {first + start + 2 * page + half, page + half}};
    std::vector<std::vector<std::size_t>> pages;  // first and count, by round
    for (const std::vector<PageRange>& list : find_released(schedule, memory)) {
      pages.emplace_back();
      for (const PageRange& range : list) {
        pages.back().push_back(static_cast<std::size_t>(range.first - first) / page);
        pages.back().push_back(range.bytes / page);
      }
    }
    return pages;
  };
  using Pages = std::vector<std::vector<std::size_t>>;
  // The third page has the end of one tile and the beginning of the other.
  EXPECT_EQ(released(0), (Pages{{0, 2}, {}, {2, 2}, {}}));
  // Half a page later: the first page and the last one hold something else.
  EXPECT_EQ(released(half), (Pages{{1, 1}, {2, 1}, {3, 1}, {}}));
}

// Two devices have one source: it goes when both have read it.
TEST(InPlace, gives_back_what_tiles_share_after_the_last_of_them) {
  const auto page = static_cast<std::size_t>(page_bytes());
  const Buffer buffer = make_page_buffer(3 * page);
  const std::vector<std::span<const std::byte>> memory{{buffer.data(), 2 * page}, {buffer.data() + page, 2 * page}};
  const InPlaceSchedule schedule{2, {{{2, 1}}, {{1, 0}}}};
  const std::vector<std::vector<PageRange>> released = find_released(schedule, memory);
  EXPECT_TRUE(released[0].empty());
  ASSERT_EQ(released[1].size(), 1U);
  EXPECT_EQ(released[1][0].first, buffer.data());
  EXPECT_EQ(released[1][0].bytes, 2 * page);
  ASSERT_EQ(released[2].size(), 1U);
  EXPECT_EQ(released[2][0].first, buffer.data() + 2 * page);
}

TEST(InPlace, passes_on_what_has_come_into_a_host) {
  const auto engine = make_threads_engine({2});
  test::RandomProblems random(23);
  int relays = 0;
  for (int i = 0; i < 40; ++i) {
    const Manifest manifest = test::any_manifest(random);
    const Hosts hosts = even_hosts(manifest.device_count(), 2);
    const TransferPlan plan = plan_within(manifest, 4096, hosts);
    relays += plan.has_relays() ? 1 : 0;
    const TransferReport report = run_transfer(plan, *engine);
    ASSERT_EQ(report.difference, std::nullopt) << i;
    ASSERT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
  }
  EXPECT_GT(relays, 5);
}

// At an eighth of its size. What is predicted is what is measured, see above.
TEST(InPlace, of_the_papers_family_needs_little_more_than_the_larger_tile) {
  const std::int64_t cap = 1 << 20;
  int count = 0;
  int good = 0;
  const std::vector<Problem> family = test::file_problems();
  for (std::size_t i = 0; i < family.size(); i += test::is_sweep() ? 1U : 25U) {
    const Problem problem = evaluation::scale_problem(family[i], 1.0 / 8);
    const TransferPlan plan(make_manifest({{"w", problem}}), cap);
    const InPlaceFigures figures = choose_in_place(plan);
    const auto limit = static_cast<std::int64_t>(1.1 * static_cast<double>(largest(figures.larger))) + cap;
    ++count;
    good += figures.peak <= limit ? 1 : 0;
  }
  EXPECT_GE(good * 10, count * 9) << good << " of " << count;
}

}  // namespace
}  // namespace retile::transfer
