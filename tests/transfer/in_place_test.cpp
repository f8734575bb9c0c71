#include "retile/transfer/in_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evaluation/sampler.h"
#include "retile/base/error.h"
#include "retile/engines/threads/threads.h"
#include "retile/transfer/run.h"
#include "tests/support/layouts.h"
#include "tests/support/manifests.h"
#include "tests/support/problems.h"

namespace retile::transfer {
namespace {

InPlaceSchedule schedule_of(const TransferPlan& plan) { return make_in_place(plan).schedule; }

std::int64_t largest(const std::vector<std::int64_t>& bytes) { return *std::max_element(bytes.begin(), bytes.end()); }

TEST(InPlace, gives_every_device_its_slices_in_the_pages_predicted) {
  const auto engine = make_threads_engine({2});
  test::RandomProblems random(21);
  for (int i = 0; i < 60; ++i) {
    const TransferPlan plan(test::any_manifest(random), 4096);
    const TransferReport report = run_in_place(plan, *engine, {1, 2});
    ASSERT_EQ(report.difference, std::nullopt) << i;
    ASSERT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
    ASSERT_EQ(report.peak_bytes_predicted, largest(schedule_of(plan).peaks)) << i;
  }
}

TEST(InPlace, rows_to_columns_peak_at_one_tile_and_the_cap) {
  const auto engine = make_threads_engine({2});
  for (const test::ProblemText text : {test::ProblemText{"x=4", "[256{x}1024, 1024]", "x=4", "[1024, 256{x}1024]"},
                                       test::ProblemText{"x=4", "[1024, 256{x}1024]", "x=4", "[256{x}1024, 1024]"}}) {
    const TransferPlan plan(make_manifest({{"w", problem_of(text)}}), 128 << 10);
    const InPlaceSchedule schedule = schedule_of(plan);
    EXPECT_EQ(largest(schedule.larger), 1 << 20);
    EXPECT_LE(schedule.excess(), 128 << 10);
    const TransferReport report = run_in_place(plan, *engine);
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
  const TransferPlan plan(make_manifest(arrays), 512 << 10);
  const TransferReport report = run_in_place(plan, *engine);
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
  const std::vector<std::vector<PageRange>> released = find_released(schedule_of(plan), memory);
  for (const PageRange& range : released.back()) bytes += range.bytes;
  EXPECT_EQ(bytes, 2 * 4 * 32768U);
}

// Two tiles in one buffer, the first of which ends in the middle of a page.
TEST(InPlace, gives_back_pages_that_are_sources_as_a_whole) {
  const auto page = static_cast<std::size_t>(page_bytes());
  InPlaceSchedule schedule;
  schedule.rounds = 3;
  schedule.last_reads = {{0, 0, 1}, {2, InPlaceSchedule::never}};
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

TEST(InPlace, passes_on_what_has_come_into_a_host) {
  const auto engine = make_threads_engine({2});
  test::RandomProblems random(23);
  int relays = 0;
  for (int i = 0; i < 40; ++i) {
    Manifest manifest = test::any_manifest(random);
    const Hosts hosts = even_hosts(manifest.device_count(), 2);
    const TransferPlan plan(std::move(manifest), 4096, hosts);
    relays += plan.has_relays() ? 1 : 0;
    const TransferReport report = run_in_place(plan, *engine);
    ASSERT_EQ(report.difference, std::nullopt) << i;
    ASSERT_EQ(report.peak_bytes_measured, report.peak_bytes_predicted) << i;
  }
  EXPECT_GT(relays, 10);
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
    const InPlaceSchedule schedule = schedule_of(plan);
    const auto limit = static_cast<std::int64_t>(1.1 * static_cast<double>(largest(schedule.larger))) + cap;
    ++count;
    good += largest(schedule.peaks) <= limit ? 1 : 0;
  }
  EXPECT_GE(good * 10, count * 9) << good << " of " << count;
}

}  // namespace
}  // namespace retile::transfer
